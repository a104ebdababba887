/** Tests every published case on the real stores, behind a network that loses, delays and refuses. */
import { afterAll, expect } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { CLOCK_CANNOT_GO_BACK, describeStoreCases } from "../stores/cases.ts";
import { count, report, tellCounts } from "./figures.ts";
import { retrying } from "./retrying.ts";
import { IS_FULL } from "./sizes.ts";
import { EVERY_SUBJECT, openSubject, SUBJECTS, type Subject } from "./subjects.ts";

for (const subject of IS_FULL ? EVERY_SUBJECT : SUBJECTS) describeFaultyCases(subject);

/** Every published case, each with its own faulty network. */
function describeFaultyCases({ name, service, without, create }: Subject): void {
  const ends: (() => unknown)[] = [];
  const faults: Record<string, number> = {};
  let seed = 0;
  let shared: Promise<Store> | undefined;

  async function open(): Promise<Store> {
    const skip = (): never => expect.unreachable("a case without its service is not begun");
    const scene = { skip, onTestFinished: (end: () => unknown) => void ends.push(end) };
    return openSubject(scene, await create(scene));
  }

  describeStoreCases(
    `${name} behind a network that loses, delays and refuses calls, with a client that repeats each failed call unchanged`,
    async () => {
      shared ??= open();
      const retried = retrying(await shared, ++seed, (fault) => {
        faults[fault] = (faults[fault] ?? 0) + 1;
      });
      return { store: retried, dispose: () => {} };
    },
    { ...(service && { service }), without: { ...CLOCK_CANNOT_GO_BACK, ...without } },
  );

  afterAll(async () => {
    const store = await shared;
    const met = tellCounts(faults);
    if (store !== undefined)
      await report(store, {
        trial: "Every published case behind a bad network",
        figures: `${count(seed)} cases, every failed call is repeated unchanged; faults injected: ${met}`,
      });
    for (const end of ends.reverse()) await end();
  });
}
