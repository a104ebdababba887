/** Tests the etcd store when replies are lost, members die or are cut off, the database is full, or the history is compacted. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, type TestContext, test, vi } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { type EtcdStoreOptions, etcdStore } from "../../src/stores/etcd.ts";
import { startEtcd } from "../services/etcd.ts";
import { startProxy } from "../services/proxy.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { claimOf } from "./claim-request.ts";
import { endpointsIn, newPrefix, openEtcd, PATIENCE } from "./etcd/stores.ts";
import {
  expectBackAfterRefusal,
  expectClaimRecognised,
  STEPS,
  testRepeatedStep,
  UNAVAILABLE,
} from "./lost-replies.ts";

/** A store behind proxies, one for each of so many members, and one directly on the cluster. */
async function throughProxies(context: TestContext, members = 1, options: Partial<EtcdStoreOptions> = {}) {
  const urls = endpointsIn(sharedUrl(context, "etcd")).slice(0, members);
  const proxies = await Promise.all(urls.map((url) => startFor(context, () => startProxy(url))));
  const endpoints = proxies.map(({ url }) => new URL(url).origin);
  const prefix = newPrefix();
  // The store begins with any of its members; here with the first.
  vi.spyOn(Math, "random").mockReturnValueOnce(0);
  const store = openEtcd(context, { endpoints, prefix, ...options });
  await store.read("warm");
  const [proxy] = proxies as [(typeof proxies)[number]];
  return { store, direct: openEtcd(context, { prefix }), proxy, proxies };
}

/** One member, and no time to ask it again: the caller learns of each lost reply. */
const once = (context: TestContext) => throughProxies(context, 1, { timeoutMs: 30_000, fetch: onlyOnce() });

/** After a request without an answer, later ones within the same call are refused at once. */
function onlyOnce(): NonNullable<EtcdStoreOptions["fetch"]> {
  let failed: RequestInit["body"];
  return async (url, init) => {
    if (failed !== undefined && failed === init.body) {
      failed = undefined;
      return new Response('{"code":3,"message":"etcdserver: not asked again"}', { status: 503 });
    }
    try {
      return await fetch(url, init);
    } catch (error) {
      failed = init.body;
      throw error;
    }
  };
}

const isWrite = (chunk: Buffer) => chunk.includes("/v3/kv/txn");

test("lost-reply: a claim whose reply was lost is recognised by its token", async (context) => {
  await expectClaimRecognised(await once(context), isWrite);
});

for (const name of Object.keys(STEPS) as (keyof typeof STEPS)[]) {
  testRepeatedStep(name, "kv/txn", isWrite, once);

  test(`lost-reply: ${name} is true although the store itself asked another member`, async (context) => {
    const { store, proxies } = await throughProxies(context, 3);
    const owner = claimOf("a");
    await store.claim(owner);
    for (const proxy of proxies.slice(0, 2)) proxy.cutReply(1, isWrite);
    expect(await STEPS[name](store, owner.id, owner.token)).toBe(true);
  });
}

test("lost-reply: a claim that was sent to two members is new once, and written once", async (context) => {
  const { store, direct, proxies } = await throughProxies(context, 3);
  const request = claimOf("a");
  for (const proxy of proxies.slice(0, 2)) proxy.cutReply(1, isWrite);
  const answer = await store.claim(request);
  expect(answer).toMatchObject({ status: "new", number: 1, tookOver: false });
  expect(await direct.read(request.id)).toMatchObject({ token: request.token, number: 1 });
  expect(await direct.claim(claimOf("a"))).toMatchObject({ status: "pending" });
});

test("lost-reply: a record that was removed by a try without a reply is forgotten", async (context) => {
  const { store, proxies } = await throughProxies(context, 3);
  const owner = claimOf("a");
  const answer = await store.claim(owner);
  await store.abandon({ ...owner, as: "unknown" });
  for (const proxy of proxies.slice(0, 2)) proxy.cutReply(1, isWrite);
  expect(await store.forget?.({ id: owner.id, fence: "fence" in answer ? answer.fence : 0 })).toBe(true);
});

test("a cluster that cannot be reached is unavailable, and the store works once it is back", async (context) => {
  await expectBackAfterRefusal(await throughProxies(context, 1, { timeoutMs: 500 }));
});

test("stuck-store: a member that does not answer is passed over within the time of one call", async (context) => {
  const { store, proxy } = await throughProxies(context, 2, { memberTimeoutMs: 300 });
  proxy.hang();
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new" });
});

/** Each call of the store, with a signal that cancels it. */
const CALLS: Readonly<Record<string, (store: Store, signal: AbortSignal) => Promise<unknown> | undefined>> = {
  claim: (store, signal) => store.claim({ ...claimOf("a"), signal }),
  complete: (store, signal) =>
    store.complete({ id: "id-a", token: "t", outcome: "done", retentionMs: 1, signal }),
  renew: (store, signal) => store.renew({ id: "id-a", token: "t", leaseMs: 1, signal }),
  read: (store, signal) => store.read("id-a", { signal }),
  purge: (store, signal) => store.purge(1, { signal }),
  list: (store, signal) => store.list?.({ namespace: "n", limit: 1, signal }),
};

test("stuck-store: each cancelled call ends its request, and no connection stays open", async (context) => {
  const { store, proxy } = await throughProxies(context);
  proxy.hang();
  for (const [name, call] of Object.entries(CALLS)) {
    const giveUp = new AbortController();
    const before = proxy.requests;
    const refused = expect(call(store, giveUp.signal), name).rejects.toMatchObject(UNAVAILABLE);
    await expect.poll(() => proxy.requests, { timeout: 15_000 }).toBeGreaterThan(before);
    giveUp.abort();
    await refused;
  }
  await expect.poll(() => proxy.connections, { timeout: 15_000 }).toBe(0);
  proxy.heal();
  expect(await store.claim(claimOf("b"))).toMatchObject({ status: "new" });
});

/** A cluster for one test alone, and a store on it. */
async function ownCluster(context: TestContext, settings = {}, members = 3) {
  const cluster = await startFor(context, () => startEtcd({ settings, members }));
  const endpoints = cluster.members.map(({ url }) => url);
  const open = (options: Partial<EtcdStoreOptions> = {}) => {
    const store = etcdStore({ endpoints, timeoutMs: 30_000, ...options });
    context.onTestFinished(() => store.close());
    return store;
  };
  return { cluster, endpoints, open, store: open() };
}

test("failover: what was acknowledged before a leader was killed or cut off is there afterwards", async (context) => {
  const { cluster, store } = await ownCluster(context);
  const claims = ["a", "b", "c"].map((key) => claimOf(key));
  const fences: number[] = [];
  const claim = async (index: number) => {
    const answer = await store.claim(claims[index] as (typeof claims)[number]);
    expect(answer).toMatchObject({ status: "new", number: 1 });
    if (answer.status === "new") fences.push(answer.fence);
  };
  await claim(0);
  const first = await cluster.leader();
  await cluster.members[first]?.kill();
  await claim(1);
  await cluster.members[first]?.restart();
  const second = await cluster.leader();
  cluster.network.cutOff(second);
  await claim(2);
  for (const { id, token } of claims)
    expect(await store.complete({ id, token, outcome: `of ${id}`, retentionMs: 60_000 })).toBe(true);
  cluster.network.heal();
  for (const { id } of claims)
    expect(await store.read(id)).toMatchObject({ state: "completed", outcome: `of ${id}` });
  expect(fences).toHaveLength(3);
});

test("without a majority the store is unavailable, and no member answers a read by itself", async (context) => {
  const { cluster, store, open } = await ownCluster(context);
  await store.claim(claimOf("a"));
  await Promise.all([1, 2].map((index) => cluster.members[index]?.kill()));
  const hasty = open({ timeoutMs: 2_000, memberTimeoutMs: 700 });
  await expect(hasty.claim(claimOf("b"))).rejects.toMatchObject(UNAVAILABLE);
  await expect(hasty.read(claimOf("a").id)).rejects.toMatchObject(UNAVAILABLE);
  await Promise.all([1, 2].map((index) => cluster.members[index]?.restart()));
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "pending" });
});

test("NOSPACE: a full database refuses claims with store-full, still answers what it has, and purges", async (context) => {
  const { store, open, endpoints } = await ownCluster(context, { "quota-backend-bytes": 2_000_000 }, 1);
  const clock = { now: () => Date.now() + 86_400_000 };
  const done = claimOf("done", { retentionMs: 1_000 });
  await store.claim(done);
  await store.complete({ ...done, outcome: "kept" });
  let refused: unknown;
  for (let i = 0; refused === undefined && i < 100; i++) {
    const claim = claimOf(`fill-${i}`, { retentionMs: 10 * 86_400_000 });
    refused = await store
      .claim(claim)
      .then(() => store.complete({ ...claim, outcome: "x".repeat(200_000) }))
      .then(
        () => undefined,
        (error) => error,
      );
  }
  expect(refused).toMatchObject({ code: "store-full" });
  await expect(store.claim(claimOf("new"))).rejects.toMatchObject({ code: "store-full" });
  expect(await store.read(done.id)).toMatchObject({ outcome: "kept" });
  expect((await store.settings?.())?.notes.join("\n")).toContain("NOSPACE");
  expect((await open({ clock }).purge(10)).removed).toBe(1);
  const later = { now: () => clock.now() + 20 * 86_400_000 };
  expect((await open({ clock: later }).purge(100)).removed).toBeGreaterThan(5);
  // As an operator would: compact, defragment, disarm.
  const ask = async (path: string, body: object) =>
    (await fetch(`${endpoints[0]}/v3/${path}`, { method: "POST", body: JSON.stringify(body) })).json();
  const { header } = (await ask("kv/range", { key: "YQ==" })) as { header: { revision: string } };
  await ask("kv/compaction", { revision: header.revision, physical: true });
  await ask("maintenance/defragment", {});
  const { alarms } = (await ask("maintenance/alarm", { action: "GET" })) as { alarms: object[] };
  for (const alarm of alarms) await ask("maintenance/alarm", { action: "DEACTIVATE", ...alarm });
  expect((await store.settings?.())?.notes.join("\n")).not.toContain("NOSPACE");
  expect(await store.claim(claimOf("new"))).toMatchObject({ status: "new" });
});

/** Resolves when the waiter is woken; rejects after `ms`. */
async function woken(store: Store, id: string, act: () => Promise<unknown>, ms = 30_000): Promise<number> {
  let wake = () => {};
  const isWoken = new Promise<void>((resolve) => {
    wake = resolve;
  });
  const stop = await store.watch?.({ id, wake: () => wake() });
  await act();
  const from = performance.now();
  await Promise.race([isWoken, sleep(ms).then(() => Promise.reject(new Error("nobody was woken")))]);
  stop?.();
  return performance.now() - from;
}

test("lost-push: a waiter whose stream fell silent is woken by the look of the next second", async (context) => {
  const { store, direct, proxies } = await throughProxies(context, 2);
  const owner = claimOf("a");
  await direct.claim(owner);
  await woken(store, owner.id, async () => {
    for (const proxy of proxies) proxy.silence();
    await direct.complete({ ...owner, outcome: "done" });
  });
});

test("lost-push: a stream that ends wakes its waiter", async (context) => {
  const { store, direct, proxies } = await throughProxies(context, 2);
  const owner = claimOf("a");
  await direct.claim(owner);
  await woken(store, owner.id, async () => {
    for (const proxy of proxies) proxy.cutAll();
  });
});

test("a watch lives through a compaction of the history, and notices what comes after it", async (context) => {
  const { store, endpoints } = await ownCluster(context, {}, 1);
  const owner = claimOf("a");
  await store.claim(owner);
  await woken(store, owner.id, async () => {
    for (let i = 0; i < 20; i++) await store.renew({ ...owner, leaseMs: 60_000 });
    const body = JSON.stringify({ key: "YQ==" });
    const { header } = (await (
      await fetch(`${endpoints[0]}/v3/kv/range`, { method: "POST", body })
    ).json()) as {
      header: { revision: string };
    };
    const compact = JSON.stringify({ revision: header.revision, physical: true });
    await fetch(`${endpoints[0]}/v3/kv/compaction`, { method: "POST", body: compact });
    await store.complete({ ...owner, outcome: "done" });
  });
});

test("a renewal wakes no waiter", async (context) => {
  const store = openEtcd(context);
  const owner = claimOf("a");
  await store.claim(owner);
  let wakes = 0;
  const stop = await store.watch?.({ id: owner.id, wake: () => wakes++ });
  for (let i = 0; i < 5; i++) await store.renew({ ...owner, leaseMs: 60_000 });
  // Longer than it takes until the look that finds changes which no stream reported.
  await sleep(2_500);
  expect(wakes).toBe(0);
  await store.complete({ ...owner, outcome: "done" });
  await expect.poll(() => wakes).toBeGreaterThan(0);
  stop?.();
});

test("more than a hundred watched records are refused, so that their waiters poll", async (context) => {
  const store = openEtcd(context, PATIENCE);
  const stops = await Promise.all(
    Array.from({ length: 100 }, (_, i) => store.watch?.({ id: `id-${i}`, wake: () => {} })),
  );
  await expect(store.watch?.({ id: "one more", wake: () => {} })).rejects.toMatchObject(UNAVAILABLE);
  for (const stop of stops) stop?.();
  const again = await store.watch?.({ id: "one more", wake: () => {} });
  again?.();
});

test("a closed store refuses calls and ends its streams", async (context) => {
  const { store, proxy } = await throughProxies(context);
  await store.watch?.({ id: "id-a", wake: () => {} });
  await store.close();
  await expect(store.read("id-a")).rejects.toMatchObject(UNAVAILABLE);
  expect(proxy.connections).toBeLessThan(3);
});
