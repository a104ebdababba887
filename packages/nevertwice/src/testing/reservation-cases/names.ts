/** Cases of reservation stores: namespaces, scopes, and strings that some databases treat as equal. */
import { expect } from "./expectation.ts";
import { all, fresh, HOUR_MS, PLACED, type ReservationCases, rejected } from "./scene.ts";

/** All different, but some database treats each as equal to another. */
const LOOKALIKES = [
  "victim",
  "VICTIM",
  "victim ",
  " victim",
  "victim\u0000",
  "vi\u200bctim",
  "victím",
  "victi\u0301m",
  "straße",
  "strasse",
  "ﬁ",
  "fi",
  "\u{1f511}",
  "\u{1f512}",
  "٣",
  "3",
  "03",
  "3.0",
  "null",
  "%",
  "_",
  "\\",
  "'; DROP TABLE x; --",
  "a:b",
  "a\nb",
  "__proto__",
];

const HELD = { resource: "room", requester: "ann", durationMs: HOUR_MS };

export const names: ReservationCases = {
  async "namespaces are separate: the same key and resource in two namespaces do not collide"(scene) {
    const { store, namespace, reservations } = scene;
    const [one, other] = [reservations(), reservations({ namespace: `${namespace}-other` })];
    const key = fresh();
    const [a, b] = [
      await one.placeHold({ ...HELD, key }),
      await other.placeHold({ ...HELD, requester: "bob", key }),
    ];
    expect([a, b]).toEqual([PLACED, PLACED]);
    const [id, otherId] = [a, b].map((answer) => (answer.ok ? answer.id : "")) as [string, string];
    expect(await one.get(otherId)).toBe(undefined);
    expect(await one.release({ id: otherId, key: fresh() })).toEqual(rejected("not-known"));
    expect((await one.listHeld()).rows.map((row) => row.id)).toEqual([id]);
    expect((await other.byRequester("ann")).rows).toEqual([]);
    await other.resources.declare({ resource: "room", capacity: 5, key: fresh() });
    expect(await one.resource("room")).toMatchObject({ isDeclared: false });
    expect((await store.keys({ namespace, limit: 9 })).rows).toHaveLength(2);
    expect((await store.checkpoints({ namespace, limit: 9 })).rows).toHaveLength(2);
  },

  async "the same key in two scopes does not collide"(scene) {
    const { reservations } = scene;
    const rooms = reservations();
    const key = fresh();
    const scopes = [undefined, "shop", "SHOP", "shop "];
    const answers: unknown[] = [];
    for (const [i, scope] of scopes.entries())
      answers.push(await rooms.placeHold({ ...HELD, resource: `room-${i}`, key, scope }));
    expect(answers).toEqual(scopes.map(() => PLACED));
    for (const [i, scope] of scopes.entries())
      expect(await rooms.placeHold({ ...HELD, resource: `room-${i}`, key, scope })).toEqual(answers[i]);
  },

  async "keys are compared byte by byte"(scene) {
    const { store, namespace, reservations } = scene;
    const rooms = reservations();
    await rooms.resources.declare({ resource: "room", capacity: LOOKALIKES.length, key: fresh() });
    const ask = () => Promise.all(LOOKALIKES.map((key) => rooms.placeHold({ ...HELD, key })));
    const answers = await ask();
    expect(new Set(answers.map((answer) => (answer.ok ? answer.id : answer.detail))).size).toBe(
      LOOKALIKES.length,
    );
    expect(await ask()).toEqual(answers);
    const kept = await all((after) => store.keys({ namespace, limit: 100, after }));
    const placed = kept.filter(({ action }) => action === "placeHold").map(({ key }) => key);
    expect(placed.sort()).toEqual([...LOOKALIKES].sort());
  },

  async "resources and requesters are compared byte by byte, and read back unchanged"(scene) {
    const { store, namespace, reservations } = scene;
    const rooms = reservations();
    const hold = (name: string) =>
      rooms.placeHold({ resource: name, requester: name, durationMs: HOUR_MS, key: fresh() });
    for (const answer of await Promise.all(LOOKALIKES.map(hold))) expect(answer).toEqual(PLACED);
    for (const answer of await Promise.all(LOOKALIKES.map(hold)))
      expect(answer).toEqual(rejected("resource-unavailable"));
    for (const name of LOOKALIKES) {
      expect((await rooms.byResource(name)).rows).toMatchObject([{ resource: name, requester: name }]);
      expect((await rooms.byRequester(name)).rows).toHaveLength(1);
      expect(await rooms.resource(name)).toMatchObject({ name, taken: 1 });
    }
    const found = await all((after) => store.resources({ namespace, limit: 5, after }));
    expect(found.map(({ name }) => name).sort()).toEqual([...LOOKALIKES].sort());
  },

  async "namespaces are compared byte by byte"(scene) {
    const { namespace, reservations } = scene;
    const key = fresh();
    for (const name of LOOKALIKES)
      expect(await reservations({ namespace: `${namespace} ${name}` }).placeHold({ ...HELD, key })).toEqual(
        PLACED,
      );
  },

  async "names of the maximum length work, and longer ones are rejected"(scene) {
    const { reservations } = scene;
    const rooms = reservations();
    const name = `${"n".repeat(1_020)}\u{1f511}`;
    const longest = {
      ...HELD,
      resource: name,
      requester: name,
      key: "k".repeat(256),
      scope: "s".repeat(1_024),
    };
    const answer = await rooms.placeHold(longest);
    expect(answer).toEqual(PLACED);
    expect(await rooms.placeHold(longest)).toEqual(answer);
    expect((await rooms.byRequester(name)).rows).toMatchObject([{ resource: name }]);
    expect(await rooms.placeHold({ ...longest, resource: `${name}x`, key: fresh() })).toEqual(
      rejected("invalid-request"),
    );
    expect(await rooms.placeHold({ ...longest, requester: `${name}x`, key: fresh() })).toEqual(
      rejected("invalid-request"),
    );
    expect(await rooms.resources.declare({ resource: `${name}x`, capacity: 1, key: fresh() })).toEqual(
      rejected("invalid-request"),
    );
  },
};
