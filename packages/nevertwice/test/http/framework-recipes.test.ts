/**
 * Tests the recipes of examples/recipes/web with real frameworks over real sockets. Those that have an install of their own are
 * tested in `scale/web-recipes.test.ts`. Needs the build.
 */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import * as h3 from "h3";
import { createRequestHandler, type ServerBuild } from "react-router";
import { describe, onTestFinished, test, vi } from "vitest";
import { createApp } from "../../../../examples/recipes/web/h3.js";
import { createAction } from "../../../../examples/recipes/web/react-router.js";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { checkPayments, FAILS_FIRST } from "./payments-check.ts";

type Charge = (cents: number, idempotencyKey: string | undefined) => Promise<string>;

function scene() {
  // The frameworks report what the handler throws.
  vi.spyOn(console, "error").mockReturnValue();
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  let failures = 0;
  let charges = 0;
  const charge: Charge = async (cents) => {
    if (cents === FAILS_FIRST && failures++ === 0) throw new Error("the provider is down");
    return `receipt-${++charges}`;
  };
  return { guard, charge, charges: () => charges };
}

/** Serves a handler of web requests by node:http, and returns its URL. */
async function serve(handler: (request: Request) => Response | Promise<Response>): Promise<string> {
  const server = createAdaptorServer({ fetch: handler }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** What the compiler of React Router makes of an app with one resource route. */
function buildWith(action: ReturnType<typeof createAction>): ServerBuild {
  const route = { id: "routes/payments", path: "payments" };
  const entry = { imports: [], module: "" };
  return {
    entry: { module: { default: () => new Response("no page", { status: 404 }), handleError: () => {} } },
    routes: { [route.id]: { ...route, module: { action, default: undefined } } },
    assets: { entry, routes: {}, url: "", version: "1" },
    publicPath: "/",
    assetsBuildDirectory: "",
    future: { v8_passThroughRequests: false, v8_trailingSlashAwareDataRequests: false, v8_middleware: false },
    ssr: true,
    isSpaMode: false,
    prerender: [],
    routeDiscovery: { mode: "initial", manifestPath: "/__manifest" },
  };
}

describe("the recipe", () => {
  test("for h3 charges once for each key", async () => {
    const { guard, charge, charges } = scene();
    const server = h3.serve(createApp(guard, charge), { port: 0, hostname: "127.0.0.1", silent: true });
    onTestFinished(() => server.close(true));
    await server.ready();
    await checkPayments(String(server.url).replace(/\/$/, ""), charges);
  });

  test("for React Router charges once for each key", async () => {
    const { guard, charge, charges } = scene();
    const handler = createRequestHandler(buildWith(createAction(guard, charge)), "production");
    await checkPayments(await serve((request) => handler(request)), charges);
  });
});
