/** One resource is one resource however its path is spelt, and two values of a parameter are two. */
import { expect } from "../cases/expect.ts";
import { expectProblem, headerValues, REPLAYED } from "./response-checks.ts";
import { answer, json } from "./script.ts";
import type { CaseApp, ExchangeCases } from "./stage.ts";

const ROUTE = "/payments/:id/capture";
const SPELLINGS = [
  "/payments/Ab/capture",
  "/payments/Ab/capture/",
  "/PAYMENTS/Ab/Capture",
  "/PAYMENTS/Ab/CAPTURE/",
  "/%70ayments/Ab/c%41pture",
  "/payments//Ab/capture",
];
const OTHERS = [
  "/payments/AB/capture",
  "/payments/ab/capture",
  "/payments/Ab%2F/capture",
  "/payments/Ab%2f/capture",
  "/payments/%41b/capture",
  "/payments/Ab%20/capture",
];

const created = async () => answer(201, json({ id: "c_1" }));

/**
 * Sends the same key on every spelling, and checks that each one that the router accepts has got the first answer. A door
 * may refuse a path that services read in two ways.
 */
async function expectOneResource(app: CaseApp): Promise<void> {
  for (const [index, target] of SPELLINGS.entries()) {
    const found = await app.ask({ target });
    if ((found.status === 404 || found.status === 400) && index > 0) continue;
    expect(`the status of ${target}`, found.status, 201);
    expect(`the replay marker of ${target}`, headerValues(found, REPLAYED), index === 0 ? [] : ["true"]);
  }
  expect("how often the handler ran", app.runs(), 1);
}

export const routes: ExchangeCases = {
  "one key on several spellings of a path runs once": {
    needs: ["routes"],
    why: "A retry through a client or a proxy that adds a slash would repeat the payment.",
    async check({ app }) {
      await expectOneResource(await app(created, { route: ROUTE }));
    },
  },
  "several spellings of a path are the same request, if the operation has a name": {
    needs: ["routes"],
    why: "A retry would be refused as another request, although it is the same one.",
    async check({ app }) {
      await expectOneResource(await app(created, { route: ROUTE, options: { operation: "capture" } }));
    },
  },
  "one key on two values of a parameter is two keys": {
    needs: ["routes"],
    why: "The answer about one payment would be given for another one.",
    async check({ app }) {
      const stage = await app(created, { route: ROUTE });
      await stage.ask({ target: SPELLINGS[0] as string });
      for (const target of OTHERS) {
        const found = await stage.ask({ target });
        expect(`the replay marker of ${target}`, headerValues(found, REPLAYED), []);
      }
    },
  },
  "one key on two values of a parameter is a conflict, if the operation has a name": {
    needs: ["routes"],
    why: "The answer about one payment would be given for another one.",
    async check({ app }) {
      const stage = await app(created, { route: ROUTE, options: { operation: "capture" } });
      await stage.ask({ target: SPELLINGS[0] as string });
      expectProblem(await stage.ask({ target: OTHERS[0] as string }), 422, "conflict");
    },
  },
};
