/** Tests the work of transactions on platforms without `AsyncLocalStorage`, where a nested transaction cannot be recognised. */
import { expect, test, vi } from "vitest";
import { refuseNested, whileInside } from "../../src/transaction/nesting.ts";

test.each([
  { name: "without Node's modules", getBuiltinModule: () => undefined },
  { name: "with a process that has none of them", getBuiltinModule: undefined },
])("runs the work of a transaction $name, and refuses nothing", async ({ getBuiltinModule }) => {
  const source = {};
  vi.stubGlobal("process", { getBuiltinModule });
  try {
    const value = await whileInside(source, "charge", async () => {
      refuseNested(source);
      return "done";
    });
    expect(value).toBe("done");
  } finally {
    vi.unstubAllGlobals();
  }
});
