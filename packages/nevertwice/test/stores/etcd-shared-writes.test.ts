/** Tests what steps that are taken at once share, and what they do not: their answers, their errors, their cancellation. */
import { expect, type TestContext, test } from "vitest";
import { createGateway } from "../../src/stores/etcd/gateway.ts";
import { createSharedWrites } from "../../src/stores/etcd/shared-writes.ts";
import * as tx from "../../src/stores/etcd/transactions.ts";
import type { EtcdStoreOptions } from "../../src/stores/etcd.ts";
import { sharedUrl } from "../services/services.ts";
import { claimOf } from "./claim-request.ts";
import { endpointsIn, newPrefix, openEtcd, PATIENCE } from "./etcd/stores.ts";
import { UNAVAILABLE } from "./lost-replies.ts";

type Fetch = NonNullable<EtcdStoreOptions["fetch"]>;

const numbered = (count: number) => Array.from({ length: count }, (_, i) => `k${i}`);
const claimsOf = (count: number) => numbered(count).map((key) => claimOf(key));

/** A store whose requests go through `fetch`, and the number of those that were sent. */
function counted(context: TestContext, through: Fetch = fetch) {
  const sent = { requests: 0 };
  const prefix = newPrefix();
  const store = openEtcd(context, {
    prefix,
    fetch(url, init) {
      sent.requests++;
      return through(url, init);
    },
  });
  return { store, sent, direct: openEtcd(context, { prefix }) };
}

test("claims that are made at once share a request, and each has its own answer", async (context) => {
  const { store, sent, direct } = counted(context);
  const [held, done] = [claimOf("k0"), claimOf("k1")];
  await direct.claim(held);
  await direct.claim(done);
  await direct.complete({ ...done, outcome: "paid", retentionMs: 60_000 });
  const claims = claimsOf(20);
  const answers = await Promise.all(claims.map((claim) => store.claim(claim)));
  expect(sent.requests).toBe(1);
  expect(answers.map(({ status }) => status)).toEqual(["pending", "completed", ...new Array(18).fill("new")]);
  expect(answers[1]).toMatchObject({ outcome: "paid" });

  const owned = claims.slice(2);
  sent.requests = 0;
  const isDone = await Promise.all(
    owned.map((claim) => store.complete({ ...claim, outcome: claim.id, retentionMs: 60_000 })),
  );
  expect(sent.requests).toBe(1);
  expect(isDone).toEqual(owned.map(() => true));
  for (const { id } of owned)
    expect(await direct.read(id)).toMatchObject({ state: "completed", outcome: id });
});

test("claims of one key that are made at once are sent one after the other, and one of them is new", async (context) => {
  const { store } = counted(context);
  const answers = await Promise.all(numbered(20).map(() => store.claim(claimOf("same"))));
  expect(answers.map(({ status }) => status).sort()).toEqual(["new", ...new Array(19).fill("pending")]);
});

test("a record that etcd refuses fails alone, and the steps that shared its request are taken", async (context) => {
  const { store } = counted(context);
  const claims = claimsOf(3);
  for (const claim of claims) await store.claim(claim);
  const outcomes = ["done", "x".repeat(1_600_000), "done"];
  const settled = await Promise.allSettled(
    claims.map((claim, i) => store.complete({ ...claim, outcome: outcomes[i] ?? "", retentionMs: 60_000 })),
  );
  expect(settled).toEqual([
    { status: "fulfilled", value: true },
    { status: "rejected", reason: expect.objectContaining({ code: "options-invalid" }) },
    { status: "fulfilled", value: true },
  ]);
});

const refused = () => new Response('{"code":3,"message":"etcdserver: refused"}', { status: 400 });
const noLeader = () => new Response('{"code":14,"message":"etcdserver: no leader"}', { status: 503 });

const LOST = {
  "another member is asked": { answer: noLeader, requests: 2 },
  "each of them is sent alone": { answer: refused, requests: 4 },
};

for (const [how, { answer, requests }] of Object.entries(LOST))
  test(`lost-reply: writes that were applied together may be repeats when ${how}`, async (context) => {
    let sent = 0;
    // The first request is applied, and its answer is replaced.
    const replacingFirst: Fetch = async (url, init) => {
      const real = await fetch(url, init);
      sent++;
      return sent === 1 ? answer() : real;
    };
    const gateway = createGateway({
      endpoints: endpointsIn(sharedUrl(context, "etcd")),
      fetch: replacingFirst,
      credentials: undefined,
      ...PATIENCE,
    });
    context.onTestFinished(() => gateway.close());
    const write = createSharedWrites(gateway);
    const keys = numbered(3).map((key) => `${newPrefix()}/${key}`);
    const replies = await Promise.all(
      keys.map((key) => {
        const compare = [tx.revisionIs(key, tx.ABSENT)];
        const transaction = { compare, onSuccess: [tx.put(key, "value")], onFailure: [tx.get(key)] };
        return write({ id: key, transaction, size: key.length });
      }),
    );
    expect(sent).toBe(requests);
    for (const [i, key] of keys.entries())
      expect(replies[i]).toMatchObject({
        hasSucceeded: false,
        mayBeRepeat: true,
        found: [{ key, value: "value" }],
      });
  });

test("a cancelled step fails at once, and those that share its request go on", async (context) => {
  let release: () => void = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { store } = counted(context, async (url, init) => {
    await held;
    return fetch(url, init);
  });
  const giveUp = new AbortController();
  const cancelled = store.claim({ ...claimOf("k0"), signal: giveUp.signal });
  const other = store.claim({ ...claimOf("k1"), signal: new AbortController().signal });
  giveUp.abort();
  await expect(cancelled).rejects.toMatchObject(UNAVAILABLE);
  release();
  expect(await other).toMatchObject({ status: "new" });
});

test("a request ends when every step in it was cancelled", async (context) => {
  const signals: (AbortSignal | null | undefined)[] = [];
  const { store } = counted(context, (_, { signal }) => {
    signals.push(signal);
    return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
  });
  const callers = numbered(3).map((key) => ({ key, giveUp: new AbortController() }));
  const claims = callers.map(({ key, giveUp }) =>
    expect(store.claim({ ...claimOf(key), signal: giveUp.signal })).rejects.toMatchObject(UNAVAILABLE),
  );
  await expect.poll(() => signals.length).toBe(1);
  for (const { giveUp } of callers) {
    expect(signals[0]?.aborted).toBe(false);
    giveUp.abort();
  }
  expect(signals[0]?.aborted).toBe(true);
  await Promise.all(claims);
});
