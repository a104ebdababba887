/** Tests the Upstash store inside workerd: every published case, each in a request of its own, on a store that all requests share. */
import { randomUUID } from "node:crypto";
import type { Miniflare } from "miniflare";
import { afterAll, describe, expect, test } from "vitest";
import { type StoreCase, storeCases } from "../../src/testing/store-cases.ts";
import { STRICT } from "../platform/workerd.ts";
import { startFor } from "../services/services.ts";
import { CLOCK_CANNOT_GO_BACK, COLLECTS_ITSELF, describeCases, NO_WATCH, SCANS } from "./cases.ts";
import { doorFor, sharedDoor } from "./upstash/scene.ts";
import { startWorker } from "./upstash/workerd.ts";

const openDoor = sharedDoor();
const FLAGS = [[STRICT], [STRICT, "nodejs_compat"]];
const workers = new Map<string, Promise<Miniflare>>();
afterAll(async () => {
  for (const worker of workers.values()) await (await worker).dispose();
});

interface Verdict {
  readonly failed?: string;
  readonly skipped?: string;
}

async function runInWorker(flags: readonly string[], name: string): ReturnType<StoreCase["run"]> {
  const worker = workers.get(flags.join()) ?? openDoor().then((door) => startWorker("cases", door, flags));
  workers.set(flags.join(), worker);
  const response = await (await worker).dispatchFetch(`http://worker/?case=${encodeURIComponent(name)}`);
  const { failed, skipped } = (await response.json()) as Verdict;
  if (failed !== undefined) throw new Error(failed);
  return skipped === undefined ? undefined : { skipped };
}

const cases = storeCases(() => {
  throw new Error("the cases run in the Worker");
});

for (const flags of FLAGS) {
  const title = flags.includes("nodejs_compat") ? "in workerd with nodejs_compat" : "in workerd";
  describeCases(
    title,
    cases.map((each) => ({ ...each, run: () => runInWorker(flags, each.name) })),
    {
      service: "redis",
      without: { ...CLOCK_CANNOT_GO_BACK, ...COLLECTS_ITSELF, ...SCANS, ...NO_WATCH },
      row: `Upstash, ${title}`,
    },
  );
}

describe.for(FLAGS)("a Worker with the flags %j", (flags) => {
  test("charges once for each key, whatever overlaps", async (context) => {
    const door = await doorFor(context);
    const { orders } = await startFor(context, async () => {
      const orders = await startWorker("orders", door, flags);
      return { orders, stop: () => orders.dispose() };
    });
    const send = async (key: string, amount = 100) => {
      const body = JSON.stringify({ key, amount });
      const response = await orders.dispatchFetch("http://worker/", { method: "POST", body });
      return response.json() as Promise<{ status: string; value?: object; charges: number }>;
    };
    const key = randomUUID();
    expect(await send(key)).toEqual({ status: "ran", value: { charge: 1 }, charges: 1 });
    expect(await send(key)).toMatchObject({ status: "replayed", value: { charge: 1 }, charges: 1 });
    expect(await send(key, 200)).toMatchObject({ status: "conflict", charges: 1 });

    const overlapping = randomUUID();
    const [answers, others] = await Promise.all([
      Promise.all(Array.from({ length: 10 }, () => send(overlapping))),
      Promise.all(Array.from({ length: 10 }, () => send(randomUUID()))),
    ]);
    expect(others.every(({ status }) => status === "ran")).toBe(true);
    expect(answers.map(({ status }) => status).sort()).toEqual([
      "ran",
      ...new Array<string>(9).fill("replayed"),
    ]);
    expect(new Set(answers.map(({ value }) => JSON.stringify(value))).size).toBe(1);
    expect((await send(overlapping)).charges).toBe(1 + 1 + others.length);
  });
});
