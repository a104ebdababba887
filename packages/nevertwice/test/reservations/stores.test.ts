/** Tests the stores of reservations, their use from HTTP, and the pure modules that decide. */
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { decide } from "../../src/reservations/decision.ts";
import { createReservations } from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { sqliteReservations } from "../../src/reservations/sqlite.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { namesIn, text } from "../documents.ts";
import { HOUR_MS, openDesk, placedId } from "./desk.ts";
import { failing } from "./failing.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };
const SRC = "packages/nevertwice/src/reservations/";
/** The modules that decide. */
const PURE = [
  "answer.ts",
  "working-set.ts",
  "commitment.ts",
  "duplicate-prevention.ts",
  "registry.ts",
  "decision.ts",
  "erased-requester.ts",
];

test("Grace: store capability check at construction: what is no store is refused, and a store says what it cannot do", () => {
  const open = (store: object, available?: () => boolean) =>
    createReservations({ store: store as never, windowMs: HOUR_MS, purgeEveryMs: 0, available });
  expect(() => open(memoryStore())).toThrow(expect.objectContaining({ code: "options-invalid" }));
  const elsewhere = { ...memoryReservations(), refusesAvailable: "it runs in another thread" };
  expect(() => open(elsewhere, () => true)).toThrow("it runs in another thread");
});

test("Grace: pluggable store port: any object that keeps the port's promises is a store", async () => {
  const store = failing(memoryReservations());
  const desk = createReservations({ store, windowMs: HOUR_MS, purgeEveryMs: 0 });
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
  expect(store.transactions).toBe(1);
});

test("Grace: in-memory: the reference, for tests", async () => {
  const desk = createReservations({ store: memoryReservations(), windowMs: HOUR_MS, purgeEveryMs: 0 });
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: true });
});

test("Grace: SQL, insert-on-conflict: hold, key and event are rows of one transaction", async () => {
  const database = new DatabaseSync(":memory:");
  const store = sqliteReservations({ database });
  const desk = createReservations({ store, windowMs: HOUR_MS, purgeEveryMs: 0 });
  const first = await desk.placeHold({ ...ROOM, key: "k" });
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toEqual(first);
  expect(await desk.audit()).toMatchObject({ ok: true, counts: { commitments: 1, keys: 1, events: 1 } });
  await store.close();
  database.close();
});

test("Grace: Idempotency-Key middleware: the header's key is the hold's key, and the whole answer is replayed", async () => {
  const { desk } = openDesk();
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  const handler = withIdempotency(guard, { scope: () => "shop", required: true }, async (request) => {
    const key = request.headers.get("idempotency-key") ?? "";
    const answer = await desk.placeHold({ ...ROOM, key, scope: "shop" });
    return Response.json(answer, { status: answer.ok ? 201 : 409 });
  });
  const post = () =>
    handler(
      new Request("https://hotel.example/holds", {
        method: "POST",
        headers: { "idempotency-key": '"8e03978e-40d5-43dd-bc93-6894a57f9324"' },
      }),
    );
  const [first, again] = [await post(), await post()];
  expect([first.status, again.status]).toEqual([201, 201]);
  expect(await again.text()).toBe(await first.text());
  expect((await desk.listHeld()).rows).toHaveLength(1);
  await guard.close();
});

test("Grace: capability-scoped effects: the modules that decide read no clock, draw nothing and reach nothing", async () => {
  for (const name of PURE) {
    const source = await text(SRC + name);
    const imports = [...source.matchAll(/from "([^"]+)"/g)].map(([, path]) => path);
    for (const path of imports)
      expect(path, name).toMatch(/^(\.\/[a-z-]+\.ts|\.\.\/core\/(bytes|identity)\.ts)$/);
    expect(source, name).not.toMatch(/Date\.now|Math\.random|randomUUID|process\.|await |setTimeout/);
  }
});

test("Grace: stateless handler rule + checklist: deciding twice from the same rows at the same time decides the same", () => {
  const found = Object.freeze({
    keys: new Map(),
    resources: new Map(),
    commitments: new Map(),
    elapsed: new Map(),
  });
  const rules = { namespace: "n", windowMs: 10, historyMs: 0, maxDurationMs: HOUR_MS, available: undefined };
  const asked = {
    action: "placeHold" as const,
    parameters: { ...ROOM, units: 1 },
    digest: "d",
    keyId: "k",
    namespace: "n",
    scope: "",
    key: "k",
    newId: "c-1",
    salt: "salt",
  };
  const once = () => decide([asked], found, 1_000, rules, "checkpoint");
  expect(once()).toEqual(once());
  expect([found.keys.size, found.commitments.size]).toEqual([0, 0]);
});

test("Grace: derived tests, seeded store, no mocks: every reason has its tests, and none replaces a part of ours", async () => {
  const names = (await namesIn("packages/nevertwice/test/reservations")).filter((name) =>
    name.endsWith(".ts"),
  );
  const sources = await Promise.all(
    names.map((name) => text(`packages/nevertwice/test/reservations/${name}`)),
  );
  for (const source of sources) expect(source).not.toMatch(/vi\.(mock|doMock|spyOn)\(/);
  const all = sources.join();
  for (const file of ["answer.ts", "commitment.ts", "registry.ts"])
    for (const [, reason] of (await text(SRC + file)).matchAll(/^ {2}\| "([a-z-]+)"/gm))
      expect(all).toContain(`"${reason}"`);
});

test("Grace: availability registry, race loser rejected: what may be held is asked inside the transaction, and one wins", async () => {
  const { desk, another } = openDesk({ available: ({ requester }) => requester !== "banned" });
  expect(await desk.placeHold({ ...ROOM, requester: "banned", key: "b" })).toMatchObject({
    reason: "resource-unavailable",
  });
  const answers = await Promise.all([
    desk.placeHold({ ...ROOM, requester: "ann", key: "a" }),
    another().placeHold({ ...ROOM, requester: "cid", key: "c" }),
  ]);
  expect(answers.filter(({ ok }) => ok)).toHaveLength(1);
  expect(answers.find(({ ok }) => !ok)).toMatchObject({ reason: "resource-unavailable" });
  expect(placedId(answers.find(({ ok }) => ok) as never)).toBe((await desk.listHeld()).rows[0]?.id);
});
