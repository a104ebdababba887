/** Cases of reservation stores: concurrent actions. */

import {
  type ActionName,
  type ActionRequest,
  digestParameters,
  type Parameters,
} from "../../reservations/action-request.ts";
import type { Rules } from "../../reservations/store.ts";
import { either, expect } from "./expectation.ts";
import { all, fresh, HOUR_MS, OK, PLACED, type ReservationCases, rejected, tally } from "./scene.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };

export const crowds: ReservationCases = {
  async "a hundred concurrent requests with one key are one hold with one answer"(scene) {
    const { store, namespace, reservations } = scene;
    const desks = Array.from({ length: 5 }, () => reservations());
    const key = fresh();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => desks.map((desk) => desk.placeHold({ ...ROOM, key }))).flat(),
    );
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]).toEqual(PLACED);
    const query = { namespace, limit: 9 };
    const counts = await Promise.all([store.commitments(query), store.keys(query), store.events(query)]);
    expect(counts.map(({ rows }) => rows.length)).toEqual([1, 1, 1]);
  },

  async "a hundred concurrent requests for one resource have one winner, and the others are rejected"(scene) {
    const { reservations } = scene;
    const desks = Array.from({ length: 5 }, () => reservations());
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        (desks[i % 5] ?? reservations()).placeHold({ ...ROOM, requester: `shopper-${i}`, key: fresh() }),
      ),
    );
    expect(tally(answers)).toEqual({ ok: 1, "resource-unavailable": 99 });
  },

  async "concurrent confirm and release of a hold have one winner"(scene) {
    const { reservations, hold } = scene;
    const [desk, other] = [reservations(), reservations()];
    const ids = await Promise.all(Array.from({ length: 30 }, (_, i) => hold(desk, `room-${i}`)));
    for (const ends of await Promise.all(
      ids.map((id) => Promise.all([desk.confirm({ id, key: fresh() }), other.release({ id, key: fresh() })])),
    ))
      expect(tally(ends)).toEqual({ ok: 1, "not-held": 1 });
    for (const id of ids) {
      const { state, occupied, events } = (await desk.get(id)) ?? {};
      expect([state, occupied, events]).toEqual(either(["confirmed", 1, 2], ["released", 0, 2]));
    }
  },

  async "after concurrent actions on a few resources, the units taken equal the units occupied and never exceeded the capacity"(
    scene,
  ) {
    const { store, namespace, reservations } = scene;
    const desks = Array.from({ length: 3 }, () => reservations());
    const names = ["a", "b", "c", "d"];
    for (const resource of names) await desks[0]?.resources.declare({ resource, capacity: 5, key: fresh() });
    const guest = async (i: number) => {
      const desk = desks[i % desks.length] as (typeof desks)[number];
      const units = 1 + (i % 3);
      const request = {
        resource: names[i % 4] as string,
        requester: `guest-${i}`,
        durationMs: HOUR_MS,
        units,
      };
      const answer = await desk.placeHold({ ...request, key: fresh() });
      if (!answer.ok) return answer.reason;
      const { id } = answer;
      if (i % 2 === 0) await desk.release({ id, key: fresh() });
      else if (i % 5 === 0) await desk.confirm({ id, units: 1, key: fresh() });
      return "held";
    };
    const answers = new Set(await Promise.all(Array.from({ length: 120 }, (_, i) => guest(i))));
    expect([...answers].filter((answer) => !["held", "resource-unavailable"].includes(answer))).toEqual([]);
    const rows = await all((after) => store.commitments({ namespace, limit: 100, after }));
    for (const { name, taken, capacity } of (await store.resources({ namespace, limit: 9 })).rows) {
      const occupied = rows
        .filter(({ resource }) => resource === name)
        .reduce((sum, row) => sum + row.occupied, 0);
      expect([name, taken]).toEqual([name, occupied]);
      expect(taken <= capacity, `${name} has room for what it holds`).toBe(true);
    }
  },

  async "a group with many keys and resources is one transaction, in which each action sees the earlier ones"(
    scene,
  ) {
    const { store, namespace } = scene;
    const ask = asking(namespace);
    const rules: Rules = {
      namespace,
      windowMs: HOUR_MS,
      historyMs: 0,
      maxDurationMs: HOUR_MS,
      available: undefined,
    };
    const rooms = Array.from({ length: 40 }, (_, i) =>
      ask("placeHold", { ...ROOM, resource: `room-${i}`, units: 1 }),
    );
    const [first, second] = rooms as [ActionRequest, ActionRequest];
    const group = [
      ask("declare", { resource: "hall", capacity: 2 }),
      ...rooms,
      ask("placeHold", { ...ROOM, resource: "room-0", units: 1 }),
      first,
      { ...second, action: "confirm" as const },
      ask("release", { id: second.newId }),
      ask("placeHold", { ...ROOM, resource: "room-1", units: 1 }),
      ask("placeHold", { ...ROOM, resource: "hall", units: 3 }),
      ask("placeHold", { ...ROOM, resource: "hall", units: 2 }),
      ask("confirm", { id: "nothing" }),
    ];
    const answers = await store.transact(group, rules);
    expect(answers).toEqual([
      OK,
      ...rooms.map(({ newId }) => ({ ok: true, id: newId })),
      rejected("resource-unavailable"),
      { ok: true, id: first.newId },
      rejected("token-collision"),
      OK,
      PLACED,
      rejected("resource-unavailable"),
      PLACED,
      rejected("not-known"),
    ]);
    expect((await store.checkpoints({ namespace, limit: 9 })).rows).toMatchObject([{ events: 47 }]);
    expect(await store.transact(group, rules)).toEqual(answers);
    expect((await store.checkpoints({ namespace, limit: 9 })).rows).toHaveLength(1);
    expect((await store.resources({ namespace, name: "hall", limit: 1 })).rows).toMatchObject([{ taken: 2 }]);
  },

  async "a refusal of an unknown id is an event of no resource, with its checkpoint"(scene) {
    const { store, namespace, reservations } = scene;
    expect(await reservations().confirm({ id: "nothing", key: fresh() })).toEqual(rejected("not-known"));
    const query = { namespace, limit: 9 };
    const [event] = (await store.events(query)).rows;
    expect(event).toMatchObject({ kind: "refused", resource: undefined, entry: 0, number: 1, previous: "" });
    expect((await store.checkpoints(query)).rows).toMatchObject([{ id: event?.checkpoint, events: 1 }]);
    expect((await store.resources(query)).rows).toEqual([]);
    expect((await store.keys({ namespace, limit: 9 })).rows).toMatchObject([{ commitment: undefined }]);
  },
};

/** Action requests as a store receives them, each with its own key. */
function asking(namespace: string) {
  return (action: ActionName, parameters: Parameters): ActionRequest => {
    const key = fresh();
    const digest = digestParameters(action, parameters);
    return {
      action,
      parameters,
      digest,
      keyId: key,
      namespace,
      scope: "",
      key,
      newId: fresh(),
      salt: "salt",
    };
  };
}
