/** Tests how long calls take that are made alone, one after another, on every store: docs/stores.md repeats the figures. Needs the build. */
import { expect, type TestContext, test } from "vitest";
import { createGuard, type Guard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { startRuntime } from "../cloudflare/runtime.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { startUpstashDoor } from "../services/upstash-door.ts";
import { ms, reportOn } from "./figures.ts";
import { sizeOf } from "./sizes.ts";
import { EVERY_SUBJECT, openSubject } from "./subjects.ts";

const TRIAL = "Calls alone, p50 / p99";
const OUTCOME = "x".repeat(1_000);
const { calls, warmUp } = sizeOf("calls-alone");

type Call = (key: string) => Promise<{ readonly status: string }>;

const runOn =
  (guard: Guard): Call =>
  (key) =>
    guard.tryRun({ operation: "charge", key, fingerprint: { amount: 5 } }, () => OUTCOME);

/** How long the middle one and the slowest but one in a hundred took. */
async function measure(call: Call, expected: string): Promise<string> {
  const took: number[] = [];
  for (let n = -warmUp; n < calls; n++) {
    const startedAt = performance.now();
    const { status } = await call(`order-${n}`);
    if (n >= 0) took.push(performance.now() - startedAt);
    expect(status).toBe(expected);
  }
  const at = (share: number) => took.sort((a, b) => a - b)[Math.floor(share * took.length)] ?? Number.NaN;
  return `${at(0.5).toFixed(2)} / ${ms(at(0.99))}`;
}

async function reportAlone(store: string, call: Call): Promise<void> {
  const first = await measure(call, "ran");
  const replay = await measure(call, "replayed");
  reportOn(store, { trial: TRIAL, figures: `first call ${first}, replay ${replay}` });
}

const urls: Readonly<Record<string, (context: TestContext) => Promise<string>>> = {
  ...Object.fromEntries(EVERY_SUBJECT.map(({ name, create }) => [name, create])),
  etcd: async (context) => `${sharedUrl(context, "etcd")}/calls-alone`,
  async Upstash(context) {
    const redis = sharedUrl(context, "redis");
    const { url, token } = await startFor(context, () => startUpstashDoor(redis));
    return `${url.replace("http://", `upstash+http://${token}@`)}?prefix=alone:`;
  },
};

test("memory", async () => {
  await reportAlone("memory", runOn(createGuard({ store: memoryStore() })));
});

test.for(Object.entries(urls))("%s", async ([name, create], context) => {
  const store = await openSubject(context, await create(context));
  await reportAlone(name, runOn(createGuard({ store, purgeEveryMs: 0 })));
});

test.for([
  { name: "Durable Objects", store: "objects" },
  { name: "D1", store: "d1" },
])("$name", async ({ name, store }, { onTestFinished }) => {
  const runtime = await startRuntime("guard.ts", [], {
    durableObjects: {
      NEVERTWICE: { className: "NevertwiceObject", useSQLite: true },
      COUNTER: { className: "Counter", useSQLite: true },
    },
    d1Databases: ["DB"],
  });
  onTestFinished(() => runtime.stop());
  await runtime.ask("/migrate");
  await reportAlone(name, (key) => runtime.ask("/alone", { store, key }));
});
