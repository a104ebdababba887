/** Tests what the published cases cannot: lapse as several processes see it, clocks that differ, round trips, limits. */
import { expect, test } from "vitest";
import { type EtcdStoreOptions, etcdStore } from "../../src/stores/etcd.ts";
import { sharedUrl } from "../services/services.ts";
import { claimOf } from "./claim-request.ts";
import { endpointsIn, etcdClocks, newPrefix, openEtcd } from "./etcd/stores.ts";

const LEASE = 30_000;
const DAY = 86_400_000;
const TERMS = { leaseMs: LEASE, retentionMs: DAY };

/** A store with clocks of its own, like that of another machine. */
function machine(
  context: Parameters<typeof openEtcd>[0],
  prefix: string,
  more: Partial<EtcdStoreOptions> = {},
) {
  const clocks = etcdClocks();
  const { clock, monotonicClock } = clocks;
  return { ...clocks, store: openEtcd(context, { prefix, clock, monotonicClock, ...more }) };
}

test("lapse: a machine takes over after it has seen one lease for as long as it lasts, whatever its clock says", async (context) => {
  const prefix = newPrefix();
  const [owner, other] = [machine(context, prefix), machine(context, prefix)];
  await owner.store.claim({ ...claimOf("a"), ...TERMS });
  const challenge = () => other.store.claim({ ...claimOf("a"), ...TERMS });
  other.clock.advance(DAY - 1);
  expect(await challenge()).toEqual({ status: "pending", leaseLeftMs: LEASE, elapsedMs: DAY - 1 });
  other.clock.advance(-2 * DAY);
  expect(await challenge()).toEqual({ status: "pending", leaseLeftMs: LEASE, elapsedMs: 0 });
  other.monotonicClock.advance(LEASE - 1);
  expect(await challenge()).toEqual({ status: "pending", leaseLeftMs: 1, elapsedMs: 0 });
  expect(await other.store.read(claimOf("a").id)).toMatchObject({ state: "pending", leaseLeftMs: 1 });
  other.monotonicClock.advance(1);
  expect(await other.store.read(claimOf("a").id)).toMatchObject({ state: "lapsed" });
  expect(await challenge()).toMatchObject({ status: "new", number: 2, tookOver: true });
});

test("lapse: a renewal that a challenger never saw makes it wait for a whole lease again", async (context) => {
  const prefix = newPrefix();
  const [owner, other] = [machine(context, prefix), machine(context, prefix)];
  const claim = { ...claimOf("a"), ...TERMS };
  await owner.store.claim(claim);
  await other.store.read(claim.id);
  other.monotonicClock.advance(LEASE);
  await owner.store.renew({ ...claim, leaseMs: LEASE });
  expect(await other.store.claim({ ...claimOf("a"), ...TERMS })).toEqual({
    status: "pending",
    leaseLeftMs: LEASE,
    elapsedMs: 0,
  });
});

test("lapse: a lease that ends in less than the resolution of the wall clock has not ended", async (context) => {
  const prefix = newPrefix();
  const [owner, other] = [machine(context, prefix), machine(context, prefix)];
  await owner.store.claim({ ...claimOf("a"), ...TERMS });
  const challenge = () => other.store.claim({ ...claimOf("a"), ...TERMS });
  await challenge();
  other.monotonicClock.advance(LEASE - 0.000_01);
  expect(await challenge()).toMatchObject({ status: "pending" });
  other.monotonicClock.advance(1);
  expect(await challenge()).toMatchObject({ status: "new" });
});

test("lapse: a step that the owner keeps is no renewal", async (context) => {
  const prefix = newPrefix();
  const [owner, other] = [machine(context, prefix), machine(context, prefix)];
  const claim = { ...claimOf("a"), ...TERMS };
  await owner.store.claim(claim);
  await other.store.read(claim.id);
  other.monotonicClock.advance(LEASE);
  await owner.store.keepStep?.({ ...claim, name: "charge", outcome: "done" });
  expect(await other.store.claim({ ...claimOf("a"), ...TERMS })).toMatchObject({ status: "new", number: 2 });
});

test("lapse: a claim of the same token after the record was removed has a lease of its own", async (context) => {
  const prefix = newPrefix();
  const [owner, other, observer] = [1, 2, 3].map(() => machine(context, prefix));
  if (owner === undefined || other === undefined || observer === undefined) return;
  const claim = { ...claimOf("a"), ...TERMS };
  const answer = await owner.store.claim(claim);
  await Promise.all([other.store.read(claim.id), observer.store.read(claim.id)]);
  other.monotonicClock.advance(LEASE);
  observer.monotonicClock.advance(LEASE);
  const fence = "fence" in answer ? answer.fence : 0;
  expect(await other.store.forget?.({ id: claim.id, fence })).toBe(true);
  await owner.store.claim(claim);
  for (const { store } of [other, observer])
    expect(await store.read(claim.id)).toMatchObject({ state: "pending", leaseLeftMs: LEASE });
});

test("a clock that is ahead by more than the retention neither frees nor purges a claim whose lease runs", async (context) => {
  const prefix = newPrefix();
  const [owner, other] = [machine(context, prefix), machine(context, prefix)];
  const claim = { ...claimOf("a"), ...TERMS };
  await owner.store.claim(claim);
  other.clock.advance(10 * DAY);
  expect(await other.store.claim({ ...claimOf("a"), ...TERMS })).toMatchObject({ status: "pending" });
  expect(await other.store.purge(100)).toEqual({ removed: 0, more: false });
  expect(await owner.store.complete({ ...claim, outcome: "done" })).toBe(true);
});

test("an outcome answers for its retention on every machine whose clock differs by no more than clockSkewMs", async (context) => {
  const prefix = newPrefix();
  const skew = { clockSkewMs: 5_000 };
  const [ours, ahead] = [machine(context, prefix, skew), machine(context, prefix, skew)];
  const claim = { ...claimOf("a"), ...TERMS };
  await ours.store.claim(claim);
  await ours.store.complete({ ...claim, outcome: "done", retentionMs: 60_000 });
  ahead.advance(60_000 + 4_999);
  expect(await ahead.store.claim({ ...claimOf("a"), ...TERMS })).toEqual({
    status: "completed",
    outcome: "done",
  });
  ahead.advance(1);
  expect(await ahead.store.claim({ ...claimOf("a"), ...TERMS })).toMatchObject({ status: "new", number: 1 });
});

test("no key of the store is attached to an etcd lease, and none is left when the records are gone", async (context) => {
  const prefix = newPrefix();
  const { store, advance } = machine(context, prefix);
  const claim = { ...claimOf("a"), ...TERMS };
  await store.claim(claim);
  await store.renew({ ...claim, leaseMs: LEASE });
  const [endpoint] = endpointsIn(sharedUrl(context, "etcd"));
  const keys = async (): Promise<readonly { key: string; lease?: string }[]> => {
    const base64 = (text: string) => Buffer.from(text).toString("base64");
    const body = JSON.stringify({ key: base64(`${prefix}/`), range_end: base64(`${prefix}0`) });
    const { kvs = [] } = (await (
      await fetch(`${endpoint}/v3/kv/range`, { method: "POST", body })
    ).json()) as {
      kvs?: { key: string; lease?: string }[];
    };
    return kvs;
  };
  expect((await keys()).map(({ lease }) => lease)).toEqual([undefined, undefined]);
  await store.complete({ ...claim, outcome: "done" });
  expect(await keys()).toHaveLength(2);
  advance(DAY);
  expect(await store.purge(10)).toEqual({ removed: 1, more: false });
  expect(await keys()).toEqual([]);
});

test("purge finds expired records behind a damaged one", async (context) => {
  const prefix = newPrefix();
  const { store, advance } = machine(context, prefix);
  const [endpoint] = endpointsIn(sharedUrl(context, "etcd"));
  for (const key of ["a", "b", "c"]) {
    await store.claim({ ...claimOf(key), token: key, ...TERMS });
    await store.complete({ id: claimOf(key).id, token: key, outcome: "done", retentionMs: 1_000 });
    advance(1);
  }
  const body = JSON.stringify({
    key: Buffer.from(`${prefix}/record/${claimOf("a").id}`).toString("base64"),
    value: Buffer.from("damaged").toString("base64"),
  });
  await fetch(`${endpoint}/v3/kv/put`, { method: "POST", body });
  advance(DAY);
  let removed = 0;
  for (let i = 0; i < 4; i++) removed += (await store.purge(1)).removed;
  expect(removed).toBe(2);
  await expect(store.read(claimOf("a").id)).rejects.toMatchObject({ code: "store-unsafe" });
});

test("a first call takes two round trips, and every other step one; takeovers, and steps over another store, take two", async (context) => {
  let trips = 0;
  const counted: EtcdStoreOptions["fetch"] = (url, init) => {
    trips++;
    return fetch(url, init);
  };
  const prefix = newPrefix();
  const { store, advance } = machine(context, prefix, { fetch: counted });
  const elsewhere = machine(context, prefix, { fetch: counted });
  const tripsOf = async (call: () => Promise<unknown> | undefined): Promise<number> => {
    trips = 0;
    await call();
    return trips;
  };
  const [one, two] = ["a", "b"].map((key) => ({ ...claimOf(key), ...TERMS }));
  if (one === undefined || two === undefined) return;
  expect(await tripsOf(() => store.claim(one))).toBe(1);
  expect(await tripsOf(() => store.claim({ ...claimOf("a"), ...TERMS })), "pending").toBe(1);
  expect(await tripsOf(() => store.renew({ ...one, leaseMs: LEASE }))).toBe(1);
  expect(await tripsOf(() => store.keepStep?.({ ...one, name: "s", outcome: "done" }))).toBe(1);
  expect(await tripsOf(() => store.complete({ ...one, outcome: "done" }))).toBe(1);
  expect(await tripsOf(() => store.claim({ ...claimOf("a"), ...TERMS })), "replay").toBe(1);
  expect(await tripsOf(() => store.read(one.id))).toBe(1);
  await store.claim(two);
  advance(LEASE);
  const taker = { ...claimOf("b"), ...TERMS };
  expect(await tripsOf(() => store.claim(taker)), "takeover").toBe(2);
  expect(await tripsOf(() => elsewhere.store.complete({ ...taker, outcome: "done" }))).toBe(2);
  const three = { ...claimOf("c"), ...TERMS };
  await store.claim(three);
  expect(await tripsOf(() => store.abandon({ ...three, as: "released" }))).toBe(1);
});

test("a step whose claim was overtaken over another store is refused, although this store remembers the claim", async (context) => {
  const prefix = newPrefix();
  const [owner, other] = [machine(context, prefix), machine(context, prefix)];
  const claim = { ...claimOf("a"), ...TERMS };
  await owner.store.claim(claim);
  await owner.store.keepStep?.({ ...claim, name: "charge", outcome: "done" });
  await other.store.read(claim.id);
  other.monotonicClock.advance(LEASE);
  await other.store.claim({ ...claimOf("a"), ...TERMS });
  expect(await owner.store.keepStep?.({ ...claim, name: "charge", outcome: "done" })).toBe(false);
  expect(await owner.store.renew({ ...claim, leaseMs: LEASE })).toBe(false);
  expect(await owner.store.complete({ ...claim, outcome: "late" })).toBe(false);
  expect(await owner.store.abandon({ ...claim, as: "released" })).toBe(false);
});

test("the largest outcome that the store allows is kept, even if every character needs escaping", async (context) => {
  const store = openEtcd(context);
  const claim = { ...claimOf("a"), ...TERMS };
  await store.claim(claim);
  const outcome = '"\n\\\u0001'.repeat(Number(store.maxOutcomeBytes) / 4);
  expect(await store.complete({ ...claim, outcome })).toBe(true);
  expect((await store.read(claim.id))?.outcome === outcome).toBe(true);
});

test("a record that is larger than etcd accepts is refused with the reason", async (context) => {
  const store = openEtcd(context);
  const claim = { ...claimOf("a"), ...TERMS };
  await store.claim(claim);
  const outcome = "x".repeat(1_600_000);
  await expect(store.complete({ ...claim, outcome })).rejects.toMatchObject({
    code: "options-invalid",
    message: expect.stringContaining("--max-request-bytes"),
  });
  expect(await store.read(claim.id)).toMatchObject({ state: "pending" });
});

test("a list shows the records of its prefix only, page by page", async (context) => {
  const [prefix, other] = [newPrefix(), newPrefix()];
  const store = openEtcd(context, { prefix });
  const beside = openEtcd(context, { prefix: `${prefix}0` });
  const elsewhere = openEtcd(context, { prefix: other });
  for (const key of ["a", "b", "c"]) await store.claim({ ...claimOf(key), ...TERMS });
  await beside.claim({ ...claimOf("d"), ...TERMS });
  await elsewhere.claim({ ...claimOf("e"), ...TERMS });
  const { namespace } = claimOf("a").parts;
  const seen: string[] = [];
  let after: string | undefined;
  do {
    const page = await store.list?.({ namespace, limit: 2, ...(after !== undefined && { after }) });
    seen.push(...(page?.records ?? []).map(({ id }) => id));
    after = page?.next;
  } while (after !== undefined);
  expect(seen).toEqual(["a", "b", "c"].map((key) => claimOf(key).id).sort());
});

test.each([
  [{}, /: endpoints must be the client URL/],
  [{ endpoints: [] }, /: endpoints must be the client URL/],
  [{ endpoints: "127.0.0.1:2379" }, /: endpoints must be the client URL/],
  [{ endpoints: ["http://a:1", "http://b:2/path"] }, /: endpoints\[1\] must be the client URL/],
  [{ endpoints: "http://user:secret@a:1" }, /: endpoints must be the client URL/],
  [{ endpoints: "http://a:1", prefix: "" }, /: prefix/],
  [{ endpoints: "http://a:1", password: "secret" }, /: password needs a user/],
  [{ endpoints: "http://a:1", timeoutMs: 0 }, /: timeoutMs/],
  [{ endpoints: "http://a:1", clockSkewMs: -1 }, /: clockSkewMs/],
  [{ endpoints: "http://a:1", clock: Date }, undefined],
  [{ endpoints: "http://a:1", endpoint: "http://a:1" }, /endpoint/],
])("the options %j are checked when the store is created", (options, message) => {
  const create = () => etcdStore(options as unknown as EtcdStoreOptions);
  if (message === undefined) return expect(create).not.toThrow();
  expect(create).toThrow(
    expect.objectContaining({ code: "options-invalid", message: expect.stringMatching(message) }),
  );
  expect(create).toThrow(expect.objectContaining({ message: expect.not.stringContaining("secret") }));
});
