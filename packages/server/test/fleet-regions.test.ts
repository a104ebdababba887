/**
 * Tests two regions at work, one on Postgres and one on Redis, for docs/regions.md. Clients send the same keys to both gateways again and again, while the home of
 * their owners is cut off in every way, heals, and is moved to and fro. The services count effects by themselves.
 */
import { setTimeout } from "node:timers/promises";
import { describe, expect, type TestContext, test } from "vitest";
import { count, reportOn, tellCounts } from "../../nevertwice/test/scale/figures.ts";
import { sizeOf } from "../../nevertwice/test/scale/sizes.ts";
import { openSubject, POSTGRES, REDIS } from "../../nevertwice/test/scale/subjects.ts";
import type { FaultProxy } from "../../nevertwice/test/services/proxy.ts";
import { moveScope } from "../src/regions/scope-move.ts";
import { REGION_NAMES, type RegionName, type Regions, startRegions } from "./regions/stage.ts";

const SIZE = sizeOf("fleet-regions");
const OWNERS = ["acme", "umbrella"];

/** What the clients of both regions were told. */
interface Told {
  requests: number;
  readonly answers: Record<string, number>;
  /** The answers with a response of a service, by key. */
  readonly responses: Map<string, Set<string>>;
}

type Fault = (network: FaultProxy) => void;

const FAULTS: Readonly<Record<string, Fault>> = {
  refused: (network) => network.refuse(),
  hanging: (network) => network.hang(),
  "cut in the middle": (network) => {
    network.cutReply(3);
    network.cutRequest(3);
    network.cutAll();
  },
};

async function startTrial(context: TestContext): Promise<Regions> {
  const stores = {
    eu: await openSubject(context, await POSTGRES.create(context)),
    us: await openSubject(context, await REDIS.create(context)),
  };
  return startRegions({
    stores,
    config: { regionTimeout: SIZE.timeoutMs, lease: 20_000 },
    onRequest: () => setTimeout(Math.random() * 20),
  });
}

/** Sends each key to a region chosen at random until it is answered, and then once more to both. */
async function client(
  { gateways }: Regions,
  told: Told,
  { owner, index, isEnding }: { owner: string; index: number; isEnding: () => boolean },
): Promise<void> {
  const send = async (region: RegionName, key: string): Promise<boolean> => {
    told.requests++;
    const { status, text, code } = await gateways[region].send({ key, headers: { "x-tenant": owner } });
    const name = status === 201 ? "201" : `${status} ${code()}`;
    told.answers[name] = (told.answers[name] ?? 0) + 1;
    if (status === 201) told.responses.set(key, (told.responses.get(key) ?? new Set()).add(text));
    return status === 201;
  };
  for (let turn = 0; !isEnding(); turn++) {
    const key = `${owner}-${index}-${turn}`;
    const choose = () => REGION_NAMES[Math.random() < 0.5 ? 0 : 1] as RegionName;
    while (!(await send(choose(), key))) await setTimeout(50);
    for (const region of REGION_NAMES) if (Math.random() < 0.5) await send(region, key);
  }
}

describe("two regions", { timeout: 900_000 }, () => {
  test("run each key once, at its home, while the home is cut off, healed and moved", async (context) => {
    const regions = await startTrial(context);
    const { network, logs, stores, effects } = regions;
    const told: Told = { requests: 0, answers: {}, responses: new Map() };
    let isEnding = false;
    const clients = OWNERS.flatMap((owner) =>
      Array.from({ length: SIZE.clients }, (_, index) =>
        client(regions, told, { owner, index, isEnding: () => isEnding }),
      ),
    );
    const before = { faults: 0, moves: 0 };
    try {
      for (let round = 0; round < SIZE.rounds; round++) {
        for (const cut of Object.values(FAULTS))
          for (const region of REGION_NAMES) {
            cut(network[region]);
            before.faults++;
            await setTimeout(SIZE.faultMs);
            network[region].heal();
            await setTimeout(SIZE.faultMs / 2);
          }
        for (const owner of OWNERS) {
          const scope = `header:x-tenant:s:${owner}`;
          const to = round % 2 === 0 ? "us" : "eu";
          await moveScope({ logs, stores, namespace: "default", scope, to, waitMs: 120_000 });
          before.moves++;
          await setTimeout(SIZE.faultMs);
        }
      }
    } finally {
      isEnding = true;
      network.eu.heal();
      network.us.heal();
      await Promise.all(clients);
    }
    const ran = new Map<string, number>();
    for (const { rawHeaders } of effects) {
      const key =
        rawHeaders[rawHeaders.findIndex((text) => text.toLowerCase() === "idempotency-key") + 1] ?? "";
      ran.set(key, (ran.get(key) ?? 0) + 1);
    }
    const twice = [...ran].filter(([, times]) => times !== 1);
    const differing = [...told.responses].filter(([, responses]) => responses.size !== 1);
    expect([twice, differing]).toEqual([[], []]);
    // Every key was answered in the end, with the outcome of its one effect.
    expect([...told.responses.keys()].sort()).toEqual([...ran.keys()].sort());
    const unexpected = Object.keys(told.answers).filter(
      (name) => !["201", "409 pending", "502 upstream-lost", "503 unavailable"].includes(name),
    );
    expect(unexpected).toEqual([]);
    // A trial in which nothing happened proves nothing.
    expect(told.answers["503 unavailable"]).toBeGreaterThan(0);
    expect(ran.size).toBeGreaterThan(SIZE.clients);
    expect(new Set(effects.map(({ region }) => region))).toEqual(new Set(REGION_NAMES));
    reportOn("Postgres in one region, Redis in the other", {
      trial: "Two regions, cut off, healed and moved",
      figures: `${count(told.requests)} requests for ${count(ran.size)} keys, ${before.faults} cuts, ${before.moves} moves of an owner; clients were told ${tellCounts(told.answers)}; duplicates 0, different answers for one key 0`,
    });
  });
});
