/** Tests that spellings of one resource have one key in the gateway, whose rules name the routes of the service behind it. */
import express, { type Request, type Response } from "express";
import { expect, test } from "vitest";
import {
  type Asking,
  expectOneIdentityEach,
  post,
  ROUTES,
} from "../../nevertwice/test/http/spelled-paths.ts";
import { readRules } from "../src/gateway/gateway-rules.ts";
import { gatewayBefore, serviceOn } from "./gateway/stage.ts";

function service(): { readonly app: express.Express; runs(): number } {
  const app = express();
  let runs = 0;
  for (const route of ROUTES)
    app.post(route.replace("*", "*rest"), (req: Request, res: Response) => {
      res.status(201).json({ route, params: req.params, run: ++runs });
    });
  return { app, runs: () => runs };
}

const rules = () =>
  readRules(
    "f",
    ROUTES.map((route) => ({ path: route.replace(/:(\w+)/g, "{$1}"), scope: "anyone" })),
  );

test.each([1, 2, 3])("random paths have one key for each resource (seed %i)", async (seed) => {
  const upstream = await serviceOn(service().app);
  const { port } = await gatewayBefore(upstream, { routes: rules() });
  const ask: Asking = (path, how) => post(port, path, how?.key);
  await expectOneIdentityEach(ask, { seed, count: 150, hasNamed: false });
});

test("without a parameter in the rule, what its wildcard matches is not folded", async () => {
  const { app, runs } = service();
  const upstream = await serviceOn(app);
  const { send } = await gatewayBefore(upstream, {
    routes: readRules("f", [{ path: "/payments/*", scope: "anyone" }]),
  });
  for (const path of ["/payments/a", "/PAYMENTS/a", "/%70ayments/a"]) await send({ path, key: "k" });
  expect(runs()).toBe(1);
  for (const path of ["/payments/A", "/payments/a/", "/payments/%61"]) await send({ path, key: "k" });
  expect(runs()).toBe(4);
});
