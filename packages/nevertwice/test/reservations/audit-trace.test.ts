/** Tests the trace from a commitment to its keys, and the search for double charges. */
import { expect, test } from "vitest";
import { altered, NAMESPACE, openAuditScene, openReservations, WINDOW_MS } from "./audit-scene.ts";
import { placedId } from "./desk.ts";

test("a commitment is traced to the key that placed it, the key that ended it, and the keys of rejected actions", async () => {
  const { desk, ids } = await openAuditScene();
  const trace = await desk.trace(ids.released);
  expect(trace?.commitment?.state).toBe("released");
  expect(trace?.placedBy?.record).toMatchObject({ key: "place-seat-3", action: "placeHold" });
  expect(trace?.endedBy?.record).toMatchObject({ key: "release", answer: { ok: true } });
  expect(trace?.events.map(({ kind, by }) => [kind, by?.record?.key])).toEqual([
    ["placed", "place-seat-3"],
    ["released", "release"],
  ]);
  expect(trace?.keys.map(({ key }) => key).sort()).toEqual(["place-seat-3", "refused-confirm", "release"]);
});

test("a hold that expired to make room has no ending key, and an unknown id has no trace", async () => {
  const { desk, clock, ids } = await openAuditScene();
  clock.advance(60_000);
  await desk.placeHold({ resource: "seat-1", requester: "ben", durationMs: 1_000, key: "next" });
  const trace = await desk.trace(ids.held);
  expect(trace?.events.map(({ kind, by }) => [kind, by === undefined])).toEqual([
    ["placed", false],
    ["expired", true],
  ]);
  expect(trace?.endedBy).toBeUndefined();
  expect(await desk.trace("nobody")).toBeUndefined();
  await expect(desk.trace("")).rejects.toMatchObject({ code: "options-invalid" });
});

test("a purged key is still named by its hash, and a reused key is not mistaken for it", async () => {
  const { desk, clock, store, ids } = await openAuditScene();
  const before = await desk.trace(ids.held);
  clock.advance(WINDOW_MS);
  await store.purge(1_000);
  await desk.placeHold({ resource: "other", requester: "ann", durationMs: 1_000, key: "place-seat-1" });
  const trace = await desk.trace(ids.held);
  expect(trace?.placedBy).toEqual({ keyId: before?.placedBy?.keyId, record: undefined });
});

test("doubles: a retry is not a double, two keys are two operations, and a reused key has its own verdict", async () => {
  const { desk, clock } = await openAuditScene();
  await desk.resources.declare({ resource: "card", capacity: 1_000, key: "declare-card" });
  const charge = async (key: string) =>
    placedId(
      await desk.placeHold({ resource: "card", requester: "ann", durationMs: 1_000, units: 250, key }),
    );
  const first = await charge("order-1");
  clock.advance(100);
  expect(await charge("order-1")).toBe(first);
  expect(await desk.doubles({ withinMs: 1_000 })).toMatchObject({
    looked: 6,
    count: 0,
    pairs: [],
    violations: 0,
  });
  const second = await charge("order-2");
  const { pairs, count, violations } = await desk.doubles({ withinMs: 1_000, resource: "card" });
  expect({ count, violations }).toEqual({ count: 1, violations: 0 });
  expect(pairs).toMatchObject([
    {
      resource: "card",
      requester: "ann",
      apartMs: 100,
      verdict: "two-operations",
      first: { id: first, placedBy: { record: { key: "order-1" } } },
      second: { id: second, placedBy: { record: { key: "order-2" } } },
    },
  ]);
  expect((await desk.doubles({ withinMs: 99 })).count).toBe(0);
  clock.advance(WINDOW_MS);
  await charge("order-2");
  const later = await desk.doubles({ withinMs: WINDOW_MS, requester: "ann", resource: "card" });
  expect(later.pairs.map(({ verdict }) => verdict)).toEqual(["two-operations", "key-used-again"]);
  expect((await desk.doubles({ withinMs: WINDOW_MS, limit: 1 })).pairs).toHaveLength(1);
});

test("doubles: two commitments of one key within its window are a violation", async () => {
  const { desk, store } = await openAuditScene();
  await desk.resources.declare({ resource: "card", capacity: 2, key: "declare-card" });
  for (const key of ["order-1", "order-2"])
    await desk.placeHold({ resource: "card", requester: "ann", durationMs: 1_000, key });
  const all = { namespace: NAMESPACE, limit: 100 };
  const keys = (await store.keys(all)).rows;
  const [one, two] = ["order-1", "order-2"].map((key) => keys.find((row) => row.key === key)?.id);
  const forged = altered(store, { event: (row) => (row.keyId === two ? { ...row, keyId: one } : row) });
  const found = await openReservations(forged).doubles({ withinMs: 1_000 });
  expect(found).toMatchObject({ count: 1, violations: 1, pairs: [{ verdict: "one-key" }] });
  const silent = altered(store, { event: (row) => (row.keyId === two ? undefined : row) });
  expect((await openReservations(silent).doubles({ withinMs: 1_000 })).pairs[0]?.verdict).toBe("untold");
});

test("doubles throws options-invalid without withinMs", async () => {
  const { desk } = await openAuditScene();
  await expect(desk.doubles({} as never)).rejects.toMatchObject({
    message: expect.stringContaining("withinMs"),
  });
});
