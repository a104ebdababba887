/** Tests who may act: the actor is kept in the journal, and a refusal of the actor is an answer that is kept too. */
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import type { ActorQuestion, JournalEvent } from "../../src/reservations/index.ts";
import { sqliteReservations } from "../../src/reservations/sqlite.ts";
import { HOUR_MS, NAMESPACE, openDesk, placedId } from "./desk.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };
const parsed = ({ detail }: JournalEvent) => JSON.parse(detail);

test("the actor of each action is in its event, and is not part of the request", async () => {
  const { desk } = openDesk();
  const placed = await desk.placeHold({ ...ROOM, key: "k", actor: "clerk-1" });
  expect(await desk.placeHold({ ...ROOM, key: "k", actor: "clerk-2" })).toEqual(placed);
  const id = placedId(placed);
  await desk.confirm({ id, key: "c", actor: "clerk-2" });
  expect((await desk.history(id)).map((event) => parsed(event).actor)).toEqual(["clerk-1", "clerk-2"]);
  expect((await desk.audit()).ok).toBe(true);
});

test("an actor that is blank is refused", async () => {
  const { desk } = openDesk();
  expect(await desk.placeHold({ ...ROOM, key: "k", actor: " " })).toMatchObject({
    reason: "invalid-request",
    detail: expect.stringContaining("actor"),
  });
});

test("authorize decides by action, commitment and actor; its refusal is kept, and leaves the key to others", async () => {
  const asked: ActorQuestion[] = [];
  const { desk, store } = openDesk({
    authorize: async (question) => {
      asked.push(question);
      const { action, actor, commitment } = question;
      if (actor === undefined) return "proof-invalid";
      return action === "placeHold" || actor === commitment?.requester;
    },
  });
  const id = placedId(await desk.placeHold({ ...ROOM, key: "k", actor: "web" }));
  const denied = await desk.confirm({ id, key: "c", actor: "eve" });
  expect(denied).toEqual({ ok: false, reason: "not-authorized", detail: "this actor may not do this" });
  expect(await desk.release({ id, key: "r" })).toMatchObject({ reason: "proof-invalid" });
  expect(await desk.confirm({ id: "nothing", key: "n", actor: "eve" })).toMatchObject({
    reason: "not-authorized",
  });
  expect(await desk.confirm({ id, key: "c", actor: "ann" })).toEqual({ ok: true });
  expect(asked[1]).toMatchObject({ action: "confirm", actor: "eve", commitment: { id, requester: "ann" } });
  const { rows } = await store.events({ namespace: NAMESPACE, limit: 100 });
  const refused = rows.filter(({ kind }) => kind === "refused");
  const kept = refused.map((event) => [event.resource ?? "", parsed(event).reason, parsed(event).actor]);
  expect(kept.sort()).toEqual([
    ["", "not-authorized", "eve"],
    ["room", "not-authorized", "eve"],
    ["room", "proof-invalid", undefined],
  ]);
  expect((await desk.audit()).invariants.filter(({ ok }) => !ok)).toEqual([]);
});

test("an authorize that fails decides nothing and keeps nothing", async () => {
  const { desk, store } = openDesk({
    authorize: () => {
      throw new Error("the directory is down");
    },
  });
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toMatchObject({
    reason: "registry-unavailable",
    detail: expect.stringContaining("the directory is down"),
  });
  expect((await store.events({ namespace: NAMESPACE, limit: 9 })).rows).toEqual([]);
});

test("an authorize that answers something else is an error of the program", async () => {
  const { desk } = openDesk({ authorize: () => "maybe" as never });
  await expect(desk.placeHold({ ...ROOM, key: "k" })).rejects.toMatchObject({ code: "options-invalid" });
});

test("on a synchronous connection there is no time to ask", async () => {
  const database = new DatabaseSync(":memory:");
  const { desk } = openDesk({ store: sqliteReservations({ database }), authorize: () => true });
  await desk.get("nothing");
  database.exec("BEGIN");
  expect(() => desk.placeHold({ ...ROOM, key: "k" }, { tx: database })).toThrow("authorize");
  database.close();
});
