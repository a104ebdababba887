/** Tests that calls for one server of a cluster share a script, and that each gets its own answer while slots move. */
import type { Cluster as IoredisCluster } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ClaimRequest, Store } from "../../src/core/store.ts";
import { keySlot } from "../../src/stores/redis/key-slot.ts";
import { type RedisClient, redisStore } from "../../src/stores/redis.ts";
import { NotInstalled } from "../services/packages.ts";
import { type Cluster, startRedisCluster } from "../services/redis-cluster.ts";
import { ioredis, ioredisCluster, nodeRedisCluster } from "./redis/clients.ts";
import { claimOf, keyOf } from "./redis/scene.ts";
import { endMove, MASTERS, planMove, startMove } from "./redis/slot-moves.ts";

const CLIENTS: readonly [string, (url: string) => Promise<RedisClient> | RedisClient][] = [
  ["ioredis", ioredisCluster],
  ["node-redis", nodeRedisCluster],
];
const CALLS = 300;

let cluster: Cluster | undefined;
beforeAll(async () => {
  try {
    cluster = await startRedisCluster();
  } catch (error) {
    if (!(error instanceof NotInstalled)) throw error;
  }
}, 60_000);
afterAll(() => cluster?.stop());

function started(skip: (why: string) => never): Cluster {
  return cluster ?? skip("redis-server is not installed");
}

const claimsOf = (token: string, count = CALLS): ClaimRequest[] =>
  Array.from({ length: count }, (_, index) => claimOf(`${token}${index}`));

const all = <Answer>(claims: readonly ClaimRequest[], call: (claim: ClaimRequest) => Promise<Answer>) =>
  Promise.all(claims.map(call));

/** Groups are used once each server has shown that it refuses the keys of another one. */
async function warm(store: Store): Promise<void> {
  for (let round = 0; round < 3; round++) {
    const claims = claimsOf(`warm${round}`);
    await all(claims, (claim) => store.claim(claim));
    await all(claims, (claim) => store.complete({ ...claim, outcome: "warm" }));
  }
}

/** How many scripts the masters ran during `work`. */
async function countScripts({ nodes }: Cluster, work: () => Promise<unknown>): Promise<number> {
  const masters = nodes.slice(0, MASTERS).map(({ url }) => ioredis(url));
  await Promise.all(masters.map((master) => master.config("RESETSTAT")));
  await work();
  const infos = await Promise.all(masters.map((master) => master.info("commandstats")));
  return infos.reduce((sum, info) => sum + Number(/cmdstat_evalsha:calls=(\d+)/.exec(info)?.[1] ?? 0), 0);
}

test("the slot of a key is the one that Redis computes", async ({ skip }) => {
  const admin = ioredis(started(skip).url);
  const keys = [
    "",
    "a",
    "nevertwice:{abc}",
    "{}a",
    "a{b}{c}",
    "a{b",
    "ä{é}",
    "{ }",
    "a}{b}",
    "x".repeat(300),
  ];
  for (const key of keys) expect(keySlot(key), key).toBe(await admin.cluster("KEYSLOT", key));
});

describe.for(CLIENTS)("with %s", ([, connect]) => {
  test("calls of one turn for the same server share scripts", async ({ skip }) => {
    const servers = started(skip);
    const store = redisStore({ client: await connect(servers.url) });
    await warm(store);
    const claims = claimsOf("t");
    const most = CALLS / 10;
    const statuses: string[] = [];
    expect(
      await countScripts(servers, async () => {
        statuses.push(...(await all(claims, (claim) => store.claim(claim))).map(({ status }) => status));
      }),
    ).toBeLessThan(most);
    expect(statuses).toEqual(claims.map(() => "new"));
    const completing = () => all(claims, (claim) => store.complete({ ...claim, outcome: claim.id }));
    expect(await countScripts(servers, completing)).toBeLessThan(most);
    const replays = await all(claims, (claim) => store.claim({ ...claim, token: "other" }));
    expect(replays).toEqual(claims.map(({ id }) => ({ status: "completed", outcome: id })));
    const records = await all(claims, ({ id }) => store.read(id));
    expect(records.map((record) => record?.outcome)).toEqual(claims.map(({ id }) => id));
  });

  test("a group that meets a slot which is moving, or has moved, is granted as a whole, and once", async ({
    skip,
  }) => {
    const servers = started(skip);
    const client = await connect(servers.url);
    const [store, another] = [redisStore({ client }), redisStore({ client: await connect(servers.url) })];
    await Promise.all([warm(store), warm(another)]);
    const [moving, moved] = [claimsOf("moving"), claimsOf("moved")];
    for (const [claims, isMoved] of [
      [moving, false],
      [moved, true],
    ] as const) {
      // In the middle of its group, so that claims before it are written and claims after it are not.
      const move = await planMove(servers, claims.slice(CALLS / 2));
      await startMove(move);
      if (isMoved) await endMove(move);
      const answers = await all(claims, (claim) => store.claim(claim));
      expect(answers.map(({ status }) => status)).toEqual(claims.map(() => "new"));
      const others = await all(claims, (claim) => another.claim({ ...claim, token: "other" }));
      expect(others.map(({ status }) => status)).toEqual(claims.map(() => "pending"));
      const done = await all(claims, (claim) => store.complete({ ...claim, outcome: claim.id }));
      expect(done).toEqual(claims.map(() => true));
      const replays = await all(claims, (claim) => another.claim({ ...claim, token: "other" }));
      expect(replays).toEqual(claims.map(({ id }) => ({ status: "completed", outcome: id })));
      if (!isMoved) await endMove(move);
    }
  });

  test("10,000 keys at once are all claimed and completed", async ({ skip }) => {
    const store = redisStore({ client: await connect(started(skip).url) });
    await warm(store);
    const claims = claimsOf("many", 10_000);
    const answers = await all(claims, (claim) => store.claim(claim));
    expect(answers.every(({ status }) => status === "new")).toBe(true);
    const done = await all(claims, (claim) => store.complete({ ...claim, outcome: "done" }));
    expect(done.every(Boolean)).toBe(true);
  });
});

test("a server that forgot the scripts gets them again", async ({ skip }) => {
  const servers = started(skip);
  const store = redisStore({ client: ioredisCluster(servers.url) });
  await warm(store);
  for (const { url } of servers.nodes.slice(0, MASTERS)) await ioredis(url).script("FLUSH");
  const claims = claimsOf("t");
  const answers = await all(claims, (claim) => store.claim(claim));
  expect(answers.map(({ status }) => status)).toEqual(claims.map(() => "new"));
});

test("keys that share a hash tag of their prefix are kept and found", async ({ skip }) => {
  const client: IoredisCluster = ioredisCluster(started(skip).url);
  const store = redisStore({ client, prefix: "{app}:" });
  await warm(store);
  const claims = claimsOf("t");
  await all(claims, (claim) => store.claim(claim));
  expect(await client.exists(keyOf(claims[0]?.id ?? "", "{app}:"))).toBe(1);
  const done = await all(claims, (claim) => store.complete({ ...claim, outcome: claim.id }));
  expect(done).toEqual(claims.map(() => true));
});
