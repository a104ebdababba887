/** Tests commitments: their life, their capacity, and the records that prove it. */
import { expect, test } from "vitest";
import type { Offender } from "../../src/reservations/index.ts";
import { HOUR_MS, MINUTE_MS, NAMESPACE, openDesk, placedId } from "./desk.ts";
import { searchOneKey } from "./one-key.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };

test("Grace: hold / confirm / release / expire lifecycle: each of the three ends, once", async () => {
  const { desk, clock } = openDesk();
  await desk.resources.declare({ resource: "room", capacity: 3, key: "declare" });
  const ids = await Promise.all(
    ["a", "b", "c"].map(async (key) => placedId(await desk.placeHold({ ...ROOM, key }))),
  );
  const [a = "", b = "", c = ""] = ids;
  expect(await desk.confirm({ id: a, key: "a-1" })).toEqual({ ok: true });
  expect(await desk.release({ id: b, key: "b-1" })).toEqual({ ok: true });
  clock.advance(HOUR_MS);
  expect(await desk.expire({ id: c, key: "c-1" })).toEqual({ ok: true });
  const states = await Promise.all(ids.map(async (id) => (await desk.get(id))?.state));
  expect(states).toEqual(["confirmed", "released", "expired"]);
});

test("Grace: four terminal-safe states, ten invariants: no action leaves an end, and the audit has all ten", async () => {
  const { desk, clock } = openDesk();
  await desk.resources.declare({ resource: "room", capacity: 9, key: "declare" });
  for (const [i, end] of [desk.confirm, desk.release, desk.expire].entries()) {
    const id = placedId(await desk.placeHold({ ...ROOM, durationMs: MINUTE_MS, key: `hold-${i}` }));
    if (end === desk.expire) clock.advance(MINUTE_MS);
    expect(await end({ id, key: `end-${i}` })).toEqual({ ok: true });
    const ended = await desk.get(id);
    for (const [j, again] of [desk.confirm, desk.release, desk.expire].entries())
      expect(await again({ id, key: `again-${i}-${j}` })).toMatchObject({ reason: "not-held" });
    expect(await desk.get(id)).toEqual(ended);
  }
  const { ok, invariants } = await desk.audit();
  expect(ok).toBe(true);
  expect(invariants.filter(({ id }) => id.startsWith("C"))).toHaveLength(10);
});

test("Grace: eager and lazy expiry: written by a sweep, or by the next request for the resource; until then it cannot be confirmed", async () => {
  const { desk, clock } = openDesk();
  const swept = placedId(await desk.placeHold({ ...ROOM, resource: "swept", key: "a" }));
  const needed = placedId(await desk.placeHold({ ...ROOM, resource: "needed", key: "b" }));
  clock.advance(HOUR_MS);
  expect(await desk.confirm({ id: needed, key: "late" })).toMatchObject({ reason: "window-elapsed" });
  expect(await desk.placeHold({ ...ROOM, resource: "needed", requester: "bob", key: "c" })).toMatchObject({
    ok: true,
  });
  expect(await desk.sweep()).toBe(1);
  for (const id of [swept, needed])
    expect(await desk.get(id)).toMatchObject({ state: "expired", endedAt: clock.now() });
});

test("Grace: retried confirm returns ok, not not-held: under its own key; under another it is not-held", async () => {
  const { desk } = openDesk();
  const id = placedId(await desk.placeHold({ ...ROOM, key: "k" }));
  expect(await desk.confirm({ id, key: "c" })).toEqual({ ok: true });
  expect(await desk.confirm({ id, key: "c" })).toEqual({ ok: true });
  expect(await desk.confirm({ id, key: "d" })).toMatchObject({ ok: false, reason: "not-held" });
});

test("Grace: capacity pool, never clamps, never oversells: all of what was asked, or none of it", async () => {
  const { desk } = openDesk();
  await desk.resources.declare({ resource: "room", capacity: 5, key: "declare" });
  const id = placedId(await desk.placeHold({ ...ROOM, units: 3, key: "a" }));
  expect(await desk.placeHold({ ...ROOM, units: 3, key: "b" })).toMatchObject({
    reason: "resource-unavailable",
  });
  expect(await desk.resources.adjust({ resource: "room", capacity: 2, key: "c" })).toMatchObject({
    reason: "units-exceeded",
  });
  expect(await desk.confirm({ id, units: 4, key: "d" })).toMatchObject({ reason: "units-exceeded" });
  expect(await desk.resource("room")).toMatchObject({ capacity: 5, taken: 3 });
});

test("Grace: intent/outcome journal: each event names its key, and the key has what was asked and what came of it", async () => {
  const { desk } = openDesk();
  const id = placedId(await desk.placeHold({ ...ROOM, key: "hold" }));
  await desk.release({ id, key: "end" });
  const trace = await desk.trace(id);
  expect(trace).toMatchObject({
    events: [{ kind: "placed" }, { kind: "released" }],
    placedBy: { record: { key: "hold", parameters: ROOM, answer: { ok: true, id } } },
    endedBy: { record: { key: "end", answer: { ok: true } } },
  });
});

test("Grace: append-only event log: what happened is added to, never changed, and a change would be found", async () => {
  const { desk, store } = openDesk();
  const id = placedId(await desk.placeHold({ ...ROOM, key: "hold" }));
  const before = await desk.history(id);
  await desk.confirm({ id, key: "c" });
  expect((await desk.history(id)).slice(0, 1)).toEqual(before);
  expect(await desk.audit()).toMatchObject({ ok: true });
  const events = store.events;
  Object.assign(store, {
    events: async (query: Parameters<typeof events>[0]) => {
      const page = await events(query);
      return {
        ...page,
        rows: page.rows.map((row) => (row.kind === "placed" ? { ...row, at: row.at - 1 } : row)),
      };
    },
  });
  const { ok, invariants } = await desk.audit();
  expect(ok).toBe(false);
  const found = invariants.flatMap(({ offenders }): readonly Offender[] => offenders);
  expect(JSON.stringify(found)).toContain(id);
});

test("Grace: audit checks runnable on records: every invariant, how much it looked at, and the offenders", async () => {
  const { desk } = openDesk();
  const id = placedId(await desk.placeHold({ ...ROOM, key: "k" }));
  await desk.confirm({ id, key: "c" });
  const { ok, invariants } = await desk.audit();
  expect(ok).toBe(true);
  const counted = (prefix: string) =>
    invariants.filter((invariant) => invariant.id.startsWith(prefix)).length;
  expect([counted("C"), counted("D"), counted("R")]).toEqual([10, 4, 8]);
});

test("Grace: introspection of policy: the deployment's configuration record, for checks from outside", async () => {
  const { desk } = openDesk({ historyMs: HOUR_MS });
  expect(await desk.configuration()).toMatchObject({
    namespace: NAMESPACE,
    windowMs: 10 * MINUTE_MS,
    historyMs: HOUR_MS,
    maxKeyBytes: 256,
    digest: { version: "1" },
  });
});

test("Grace: formal model with failing twin: every state of a small world keeps the promise, and early eviction breaks it", () => {
  const { states, broken } = searchOneKey(0);
  expect(states).toBeGreaterThan(100);
  expect(broken).toBe(0);
  expect(searchOneKey(1).broken).toBeGreaterThan(0);
});
