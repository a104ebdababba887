/** Runs every published case inside workerd, one test each. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { memoryStore } from "../../src/stores/memory.ts";
import { storeCases } from "../../src/testing/stores.ts";
import { STRICT } from "../platform/workerd.ts";
import { leftOut, type Without } from "../stores/cases.ts";
import { documentedCases } from "../stores-doc.ts";
import { type Runtime, startRuntime } from "./runtime.ts";

/** With and without the modules of Node that the runtime can offer. */
export const RUNTIMES = [
  { title: "workerd", flags: [STRICT] },
  { title: "workerd with nodejs_compat", flags: [STRICT, "nodejs_compat"] },
];

/** The names of all cases; they are the same for every store. */
const TITLES = storeCases(() => memoryStore()).map(({ guarantee, name }) => ({ guarantee, name }));

interface Verdict {
  readonly failed?: string;
  readonly skipped?: string;
}

export interface WorkerdCasesOptions {
  /** Cases that the store cannot run by its nature. One test checks that exactly these are skipped. */
  readonly without?: Without;
  /** For stores whose cases move a shared clock. */
  readonly oneByOne?: boolean;
  /** The store in the rows of docs/stores.md that count these cases, one for each runtime. */
  readonly row?: string;
  /** Default: all of them. */
  readonly runtimes?: typeof RUNTIMES;
}

export function describeCasesInWorkerd(store: string, options: WorkerdCasesOptions = {}): void {
  const { without = {}, oneByOne = false, row, runtimes = RUNTIMES } = options;
  describe.each(runtimes)(`${store}, in $title`, ({ title, flags }) => {
    let runtime: Runtime;
    const skipped: string[] = [];
    let passed = 0;
    beforeAll(async () => {
      runtime = await startRuntime("cases.ts", flags);
    });
    afterAll(() => runtime.stop());

    describe("cases", { concurrent: !oneByOne }, () => {
      for (const { guarantee, name } of TITLES)
        test(`${guarantee}: ${name}`, async () => {
          const verdict = await runtime.ask<Verdict>("/case", { store, case: `${guarantee}: ${name}` });
          expect(verdict.failed).toBeUndefined();
          if (verdict.skipped === undefined) passed++;
          else skipped.push(name);
        });
    });

    test("runs every case that it can run", () => {
      expect(skipped.sort()).toEqual(Object.keys(without).sort());
      expect(passed).toBe(TITLES.length - skipped.length);
      console.info(`${store}: ${passed} cases passed in workerd, ${skipped.length} skipped`);
    });

    if (row !== undefined)
      test("docs/stores.md counts the cases that pass, and says why others are left out", () => {
        expect(documentedCases(`${row}, in ${title}`)).toEqual({ passed, leftOut: leftOut(without) });
      });
  });
}
