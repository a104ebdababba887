/** Tests the published cases on Durable Objects in workerd, and that workerd's own run of them catches broken stores. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CLOCK_CANNOT_GO_BACK } from "../stores/cases.ts";
import { BROKEN_STORES } from "../testing/broken-stores.ts";
import { describeCasesInWorkerd, RUNTIMES } from "./cases.ts";
import { type Runtime, startRuntime } from "./runtime.ts";

describeCasesInWorkerd("objects", { row: "Durable Objects" });
describeCasesInWorkerd("objects, in real time", {
  without: CLOCK_CANNOT_GO_BACK,
  runtimes: RUNTIMES.slice(0, 1),
});

describe("in workerd", { concurrent: true }, () => {
  let runtime: Runtime;
  beforeAll(async () => {
    runtime = await startRuntime("cases.ts");
  });
  afterAll(() => runtime.stop());

  const twins = Object.entries(BROKEN_STORES).flatMap(([guarantee, faults]) =>
    faults.map(({ fault, caught }) => ({ guarantee, fault, caught })),
  );
  test.each(twins)("a store that $fault is caught", async ({ guarantee, fault, caught }) => {
    expect(await runtime.ask("/broken", { guarantee, fault })).toEqual([...caught].sort());
  });
});
