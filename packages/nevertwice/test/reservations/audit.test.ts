/** The auditor on healthy records, and the forms of its report. */
import { describe, expect, test } from "vitest";
import { INVARIANT_IDS } from "../../src/reservations/audit/invariants.ts";
import { createReservations, type ReservationStore } from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import {
  type Alterations,
  altered,
  broken,
  listOffenders,
  NAMESPACE,
  openAuditScene,
  openReservations,
  WINDOW_MS,
} from "./audit-scene.ts";

describe("audit", () => {
  test("finds no problem in healthy records, and counts the records checked for each invariant", async () => {
    const { desk } = await openAuditScene();
    const data = await desk.audit();
    expect(data.invariants.filter(({ ok }) => !ok)).toEqual([]);
    expect(data.ok).toBe(true);
    expect(data.invariants.map(({ id }) => id)).toEqual(INVARIANT_IDS);
    // Only with an anchor there is something to look at.
    expect(data.invariants.filter(({ looked }) => looked === 0).map(({ id }) => id)).toEqual(["J6"]);
    expect(data.counts).toEqual({ commitments: 5, resources: 6, keys: 17, events: 17, checkpoints: 17 });
    expect(data.open.count).toBe(0);
  });

  test("reports the records written while the clock was set back, and nothing else", async () => {
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
    const failed = invariants.filter(({ ok }) => !ok);
    expect(failed.map(({ id }) => id)).toEqual(["C8", "D2", "R5", "R6", "J3"]);
    expect(failed.filter(({ broken: count }) => count === 0).map(({ id }) => id)).toEqual(["R5", "R6"]);
  });

  test("finds no problem in an empty store, with the status nothing-to-see", async () => {
    const desk = openReservations(memoryReservations());
    const { data, page } = await desk.auditReport();
    expect(data.ok).toBe(true);
    expect(page.status).toBe("nothing-to-see");
  });

  test("gives the same result in many rounds over small pages as in one round", async () => {
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

  test("lists at most maxOffenders offenders, and counts the rest", async () => {
    const { audit } = await openAuditScene();
    const { invariants } = await audit(
      { commitment: (row) => ({ ...row, requester: "eve" }) },
      { maxOffenders: 2 },
    );
    const found = invariants.find(({ id }) => id === "C5");
    expect(found).toMatchObject({ ok: false, looked: 5, broken: 5 });
    expect(found?.offenders).toHaveLength(2);
  });

  test("finds no problem after keys were purged and reused", async () => {
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

  test("stops when its signal aborts", async () => {
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
  ])("throws options-invalid with the name of the option for %j", async (options, name) => {
    const { desk } = await openAuditScene();
    await expect(desk.audit(options as never)).rejects.toMatchObject({
      code: "options-invalid",
      message: expect.stringContaining(name),
    });
  });

  /** The same store with another window in force, and a hold placed under it. */
  async function withWindow(store: ReservationStore, windowMs: number) {
    const changed = createReservations({ store, namespace: NAMESPACE, windowMs, purgeEveryMs: 0 });
    await changed.placeHold({ resource: "late", requester: "ann", durationMs: 1_000, key: "late" });
    return changed;
  }

  test.each([
    ["longer", 100 * WINDOW_MS],
    ["shorter", WINDOW_MS / 100],
  ])("finds no problem after windowMs was made %s", async (_, windowMs) => {
    const { store, clock, desk } = await openAuditScene();
    const changed = await withWindow(store, windowMs);
    expect(broken(await changed.audit())).toEqual([]);
    expect(broken(await desk.audit())).toEqual([]);
    // A key may be reused or purged once its own window has ended.
    clock.advance(WINDOW_MS + 1);
    await changed.release({ id: "nobody", key: "expire" });
    await store.purge(1_000);
    expect(broken(await changed.audit())).toEqual([]);
    expect(broken(await desk.audit())).toEqual([]);
  });

  /** As an earlier release left them: neither keys nor events say their window. */
  const unsaid = (): Alterations => ({
    key: ({ windowMs: _, ...row }) => row,
    event: (row) => ({ ...row, detail: row.detail.replace(/,"windowMs":\d+/, "") }),
  });

  test("judges records that do not contain their window by windowsMs", async () => {
    const { store } = await openAuditScene();
    await withWindow(store, 2 * WINDOW_MS);
    const old = openReservations(altered(store, unsaid()));
    const hashes = ["J2"]; // Their details were hashed with the window in them.
    expect(broken(await old.audit())).toEqual(["D2", ...hashes]);
    expect(broken(await old.audit({ windowsMs: [WINDOW_MS, 2 * WINDOW_MS] }))).toEqual(hashes);
  });

  test("finds a window that is longer than the one in the event of its key", async () => {
    const { audit } = await openAuditScene();
    const data = await audit({
      key: (row) =>
        row.key === "place-seat-1"
          ? { ...row, windowEndsAt: row.windowEndsAt + 1, windowMs: WINDOW_MS + 1 }
          : row,
    });
    expect(broken(data)).toContain("D2");
    expect(listOffenders(data, "D2").join()).toContain(`but its event has ${WINDOW_MS} ms`);
  });
});

describe("an audit during writes", () => {
  test("raises no false alarm for transactions between two pages", async () => {
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
        // Now and then no action writes, so that a suspicious record can be rechecked.
        if (++reads[name] % 4 !== 0 && turn < 400) await write();
        return read(...input);
      }) as never;
    }
    const data = await openReservations(busy).audit({ pageSize: 5, rowsAtOnce: 60 });
    expect(turn).toBeGreaterThan(300);
    expect(data.invariants.filter(({ ok }) => !ok)).toEqual([]);
  });

  test("counts records that change during every read as open", async () => {
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
  test("returns data, text and a page", async () => {
    const { desk, ids } = await openAuditScene();
    const report = await desk.auditReport();
    expect(report.data.ok).toBe(true);
    expect(report.page.sections.map(({ title, status, rows }) => [title, status, rows.length])).toEqual([
      ["Provisional Commitment", "holds", 10],
      ["Duplicate Prevention", "holds", 4],
      ["Idempotent Reservation", "holds", 8],
      ["Resource registry", "holds", 5],
      ["Journal", "holds", 6],
      ["Stored rows", "holds", 1],
    ]);
    expect(String(report)).toContain("all invariants hold");
    expect(String(report)).toContain("C7   ok      Confirmation within the window (");
    expect(JSON.parse(JSON.stringify(report.page))).toEqual(report.page);
    expect(String(report)).not.toContain(ids.held);
  });

  test("names broken invariants, and those that depend on them", async () => {
    const { store, ids } = await openAuditScene();
    const report = await openReservations(
      altered(store, { commitment: (row) => (row.id === ids.held ? { ...row, requester: "eve" } : row) }),
    ).auditReport();
    expect(report.page.status).toBe("broken");
    const text = String(report);
    expect(text).toContain("BROKEN");
    expect(text).toContain(`commitment:${ids.held}: changed since it was placed: requester`);
    expect(text).toContain("it depends on C5");
    expect(report.data.invariants.find(({ id }) => id === "R5")).toMatchObject({ ok: false, broken: 0 });
  });
});

describe("configuration", () => {
  test("contains what the records do not", async () => {
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
