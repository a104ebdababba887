/** Tests reservations when stores, processes and deployments fail. */
import { expect, test, vi } from "vitest";
import { guardFromEnv } from "../../src/env/index.ts";
import { REASONS } from "../../src/reservations/answer.ts";
import { page } from "../documents.ts";
import { createScene, failure } from "../functions/guard-scene.ts";
import { HOUR_MS, openDesk, placedId } from "./desk.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };
const ORDER = { operation: "charge", key: "order-1" };

test("Grace: store down at claim: fail closed: nothing is held, and the caller is told so", async () => {
  const { desk, store } = openDesk();
  store.plan("refused", "refused", "refused");
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toMatchObject({ ok: false, reason: "storage-failure" });
  expect((await desk.listHeld()).rows).toEqual([]);
});

test("Grace: store down at claim: fail open: for effects where twice is better than not at all, on the guard alone", async () => {
  const { guard, store } = createScene({ storeTimeoutMs: 20 });
  store.setRates({ refuse: 1 });
  await expect(guard.run(ORDER, async () => "sent")).rejects.toEqual(failure("unavailable"));
  expect(await guard.run({ ...ORDER, onUnavailable: "proceed" }, async () => "sent")).toBe("sent");
});

test("Grace: timeout on persist call: a store that does not answer holds no caller longer than actionMs", async () => {
  const { desk, store } = openDesk({ actionMs: 20 });
  const letGo = store.stall();
  const answer = await desk.placeHold({ ...ROOM, key: "k" });
  expect(answer).toHaveProperty("detail", expect.stringContaining("did not answer within 20 ms"));
  letGo();
});

test("Grace: production without shared store = config error: it is one at the start, and says what to set", async () => {
  await expect(guardFromEnv({ NODE_ENV: "production" })).rejects.toMatchObject({
    code: "options-invalid",
    message: expect.stringContaining("NEVERTWICE_STORE_URL"),
  });
});

test("Grace: environment variables: an operator sets store and windows, and a misspelt name is refused", async () => {
  const guard = await guardFromEnv({ NEVERTWICE_STORE_URL: "memory:", NEVERTWICE_RETENTION: "10m" });
  expect(guard.policy.retentionMs).toBe(600_000);
  await guard.close();
  await expect(
    guardFromEnv({ NEVERTWICE_STORE_URL: "memory:", NEVERTWICE_RETENSION: "10m" }),
  ).rejects.toEqual(failure("options-invalid"));
});

test("Grace: honest crash boundary documented: the page says what a crash at each point leaves", async () => {
  const words = await page("docs/reservations-life.md");
  for (const point of ["before the transaction", "inside the transaction", "after the commit"])
    expect(words).toContain(point);
});

test("Grace: no-double-effect conditions stated explicitly: the page has them as a list", async () => {
  const words = await page("docs/reservations-life.md");
  for (const condition of ["same key", "within the window", "one store", "durable"])
    expect(words).toContain(condition);
});

test("Grace: client retry guidance per error: the page says of every reason what to do", async () => {
  const words = await page("docs/reservations.md");
  expect(new Set(REASONS).size).toBe(16);
  for (const reason of REASONS) expect(words).toContain(`| \`${reason}\` |`);
});

test("Grace: saga compensation, idempotent both ways: three holds, the third refused, the first two undone, all of it twice", async () => {
  const { desk, another } = openDesk();
  await desk.placeHold({ ...ROOM, resource: "car", requester: "bob", key: "other" });
  const trip = async (by = desk) => {
    const ids: string[] = [];
    for (const resource of ["flight", "hotel", "car"]) {
      const answer = await by.placeHold({ ...ROOM, resource, key: `trip-1/${resource}` });
      if (answer.ok) ids.push(answer.id);
      else break;
    }
    const undone = await Promise.all(ids.map((id) => by.release({ id, key: `trip-1/undo/${id}` })));
    return { ids, undone };
  };
  const first = await trip();
  expect(first.undone).toEqual([{ ok: true }, { ok: true }]);
  expect(await trip(another())).toEqual(first);
  for (const id of first.ids) expect(await desk.history(id)).toHaveLength(2);
  expect(placedId(await desk.placeHold({ ...ROOM, resource: "hotel", key: "trip-2/hotel" }))).not.toBe(
    first.ids[1],
  );
});

test("Grace: mass-concurrency test: a thousand for the last ten, in one moment", async () => {
  const { desk, another } = openDesk();
  await desk.resources.declare({ resource: "room", capacity: 10, key: "declare" });
  const desks = [desk, another(), another()];
  const ask = vi.fn((i: number) =>
    (desks[i % 3] as typeof desk).placeHold({ ...ROOM, requester: `guest-${i}`, key: `guest-${i % 500}` }),
  );
  const answers = await Promise.all(Array.from({ length: 1_000 }, (_, i) => ask(i)));
  expect(new Set(answers.flatMap((answer) => (answer.ok ? [answer.id] : []))).size).toBe(10);
  expect((await desk.resource("room"))?.taken).toBe(10);
});
