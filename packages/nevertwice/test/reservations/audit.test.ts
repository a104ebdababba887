/** What the auditor says of records that are as they should be, and how. */
import { describe, expect, test } from "vitest";
import { INVARIANT_IDS } from "../../src/reservations/audit/invariants.ts";
import { createReservations } from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { altered, broken, NAMESPACE, openAuditScene, openReservations, WINDOW_MS } from "./audit-scene.ts";

describe("audit", () => {
  test("finds nothing where nothing was touched, and says how many records each invariant was asked of", async () => {
    const { desk } = await openAuditScene();
    const data = await desk.audit();
    expect(data.invariants.filter(({ ok }) => !ok)).toEqual([]);
    expect(data.ok).toBe(true);
    expect(data.invariants.map(({ id }) => id)).toEqual(INVARIANT_IDS);
    expect(data.invariants.filter(({ looked }) => looked === 0)).toEqual([]);
    expect(data.counts).toEqual({ commitments: 5, resources: 6, keys: 17, events: 13, checkpoints: 13 });
    expect(data.open.count).toBe(0);
  });

  test("tells where a clock that was turned back has left its mark, and finds nothing else", async () => {
    let now = 1_000_000;
    const desk = openReservations(memoryReservations({ clock: { now: () => now } }));
    const hold = { requester: "ann", durationMs: 60_000 };
    const ids: string[] = [];
    for (const resource of ["a", "b", "c"]) {
      const held = await desk.placeHold({ ...hold, resource, key: resource });
      if (held.ok) ids.push(held.id);
    }
    now -= 5_000;
    expect(await desk.confirm({ id: ids[0] as string, key: "confirm" })).toEqual({ ok: true });
    expect(await desk.giveBack({ id: ids[0] as string, key: "give back" })).toEqual({ ok: true });
    expect(await desk.release({ id: ids[1] as string, key: "release" })).toEqual({ ok: true });
    now += 10_000;
    const { invariants } = await desk.audit();
    const told = invariants.filter(({ ok }) => !ok);
    expect(told.map(({ id }) => id)).toEqual(["C8", "D2", "R5", "R6", "J3"]);
    expect(told.filter(({ broken: count }) => count === 0).map(({ id }) => id)).toEqual(["R5", "R6"]);
  });

  test("finds nothing in an empty store, and says that there was nothing to see", async () => {
    const desk = openReservations(memoryReservations());
    const { data, page } = await desk.auditReport();
    expect(data.ok).toBe(true);
    expect(page.status).toBe("nothing-to-see");
  });

  test("says the same in many rounds over small pages as in one", async () => {
    const { audit, ids } = await openAuditScene();
    const damage = {
      commitment: (row: { readonly id: string }) =>
        (row.id === ids.held ? { ...row, requester: "eve" } : row) as never,
      event: (row: { readonly kind: string }) => (row.kind === "released" ? undefined : row) as never,
    };
    const inOne = await audit(damage);
    const inMany = await audit(damage, { rowsAtOnce: 2, pageSize: 2 });
    expect(inOne.ok).toBe(false);
    const sorted = (data: typeof inOne) =>
      data.invariants.map(({ id, looked, offenders }) => [
        id,
        looked,
        offenders.map(({ subject }) => subject).sort(),
      ]);
    expect(sorted(inMany)).toEqual(sorted(inOne));
  });

  test("keeps no more offenders than it is told, and counts the rest", async () => {
    const { audit } = await openAuditScene();
    const { invariants } = await audit(
      { commitment: (row) => ({ ...row, requester: "eve" }) },
      { maxOffenders: 2 },
    );
    const found = invariants.find(({ id }) => id === "C5");
    expect(found).toMatchObject({ ok: false, looked: 5, broken: 5 });
    expect(found?.offenders).toHaveLength(2);
  });

  test("finds nothing after keys were purged and used again", async () => {
    const { desk, clock, store } = await openAuditScene();
    clock.advance(WINDOW_MS);
    expect(broken(await desk.audit())).toEqual([]);
    await store.purge(5);
    expect(broken(await desk.audit())).toEqual([]);
    await store.purge(1_000);
    for (const resource of ["place-bed", "bed"])
      await desk.placeHold({ resource, requester: "ann", durationMs: 60_000, key: "place-bed" });
    expect(broken(await desk.audit())).toEqual([]);
  });

  test("stops when its signal says so", async () => {
    const { desk } = await openAuditScene();
    const stop = new AbortController();
    stop.abort(new Error("enough"));
    await expect(desk.audit({ signal: stop.signal })).rejects.toThrow("enough");
  });

  test.each([
    [{ windowsMs: [] }, "windowsMs"],
    [{ windowsMs: [0] }, "windowsMs"],
    [{ pageSize: 0 }, "pageSize"],
    [{ previous: {} }, "previous"],
    [{ signal: "now" }, "signal"],
    [{ pagesize: 1 }, "pagesize"],
  ])("refuses %j by name", async (options, name) => {
    const { desk } = await openAuditScene();
    await expect(desk.audit(options as never)).rejects.toMatchObject({
      code: "options-invalid",
      message: expect.stringContaining(name),
    });
  });

  test("judges keys by every window that was ever in force", async () => {
    const { store } = await openAuditScene();
    const longer = createReservations({
      store,
      namespace: NAMESPACE,
      windowMs: 2 * WINDOW_MS,
      purgeEveryMs: 0,
    });
    await longer.placeHold({ resource: "late", requester: "ann", durationMs: 1_000, key: "late" });
    expect(broken(await longer.audit())).toEqual(["D2"]);
    expect(broken(await longer.audit({ windowsMs: [WINDOW_MS, 2 * WINDOW_MS] }))).toEqual([]);
  });
});

describe("an audit beside writers", () => {
  test("raises no false alarm, whatever is written between two pages", async () => {
    const clock = manualClock();
    const store = memoryReservations({ clock });
    const writer = openReservations(store);
    await writer.resources.declare({ resource: "pool", capacity: 40, key: "declare" });
    let turn = 0;
    const held: string[] = [];
    async function write(): Promise<void> {
      turn++;
      const key = `turn-${turn}`;
      const resource = turn % 3 === 0 ? "pool" : `seat-${turn % 7}`;
      const placed = await writer.placeHold({ resource, requester: "ann", durationMs: 30_000, key });
      if (placed.ok) held.push(placed.id);
      const id = held.splice((turn * 7) % Math.max(1, held.length), 1)[0];
      if (id !== undefined && turn % 2 === 0) await writer.confirm({ id, key: `${key}-confirm` });
      if (id !== undefined && turn % 4 === 0) await writer.giveBack({ id, key: `${key}-back` });
      if (id !== undefined && turn % 2 === 1) await writer.release({ id, key: `${key}-release` });
      clock.advance(turn % 5 === 0 ? 20_000 : 1);
      if (turn % 6 === 0) await writer.sweep();
      if (turn % 9 === 0) await store.purge(10);
    }
    for (let i = 0; i < 50; i++) await write();
    const reads = { commitments: 0, resources: 0, keys: 0, events: 0, checkpoints: 0, get: 0 };
    const busy = { ...store };
    for (const name of Object.keys(reads) as (keyof typeof reads)[]) {
      const read = store[name] as (...input: unknown[]) => Promise<unknown>;
      busy[name] = (async (...input: unknown[]) => {
        // Now and then nobody writes, so that what looked wrong can be read at rest.
        if (++reads[name] % 4 !== 0 && turn < 400) await write();
        return read(...input);
      }) as never;
    }
    const data = await openReservations(busy).audit({ pageSize: 5, rowsAtOnce: 60 });
    expect(turn).toBeGreaterThan(300);
    expect(data.invariants.filter(({ ok }) => !ok)).toEqual([]);
  });

  test("leaves open what changes each time it is read, and says so", async () => {
    const clock = manualClock();
    const store = memoryReservations({ clock });
    const writer = openReservations(store);
    await writer.resources.declare({ resource: "pool", capacity: 10_000, key: "declare" });
    let turn = 0;
    const busy = {
      ...store,
      commitments: async (query: Parameters<typeof store.commitments>[0]) => {
        const page = await store.commitments(query);
        await writer.placeHold({
          resource: "pool",
          requester: "ann",
          durationMs: 1_000,
          key: `turn-${turn++}`,
        });
        return page;
      },
    };
    const { ok, open, notes } = await openReservations(busy).audit();
    expect(ok).toBe(true);
    expect(open).toEqual({ count: 1, subjects: ["resource:pool"] });
    expect(notes.at(-1)).toContain("1 records changed each time");
  });
});

describe("auditReport", () => {
  test("is data, text and a page", async () => {
    const { desk, ids } = await openAuditScene();
    const report = await desk.auditReport();
    expect(report.data.ok).toBe(true);
    expect(report.page.sections.map(({ title, status, rows }) => [title, status, rows.length])).toEqual([
      ["Provisional Commitment", "holds", 10],
      ["Duplicate Prevention", "holds", 4],
      ["Idempotent Reservation", "holds", 8],
      ["Resource registry", "holds", 5],
      ["Journal", "holds", 5],
    ]);
    expect(String(report)).toContain("all invariants hold");
    expect(String(report)).toContain("C7   ok      Confirmation within the window (");
    expect(JSON.parse(JSON.stringify(report.page))).toEqual(report.page);
    expect(String(report)).not.toContain(ids.held);
  });

  test("names what is broken, and what rests on it", async () => {
    const { store, ids } = await openAuditScene();
    const report = await openReservations(
      altered(store, { commitment: (row) => (row.id === ids.held ? { ...row, requester: "eve" } : row) }),
    ).auditReport();
    expect(report.page.status).toBe("broken");
    const text = String(report);
    expect(text).toContain("BROKEN");
    expect(text).toContain(`commitment:${ids.held}: not as it was placed: requester`);
    expect(text).toContain("it rests on C5");
    expect(report.data.invariants.find(({ id }) => id === "R5")).toMatchObject({ ok: false, broken: 0 });
  });
});

describe("configuration", () => {
  test("is what an auditor cannot read from the records", async () => {
    const { desk } = await openAuditScene();
    const configuration = await desk.configuration();
    expect(configuration).toMatchObject({
      namespace: NAMESPACE,
      windowMs: WINDOW_MS,
      historyMs: 0,
      maxKeyBytes: 256,
      digest: { algorithm: "SHA-256", version: "1" },
      availability: "capacity",
    });
    expect(configuration.store.title).toBeTypeOf("string");
  });
});
