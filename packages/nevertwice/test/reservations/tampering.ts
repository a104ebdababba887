/** Ways to tamper with the tables of reservations by SQL, and the record that the audit must name. */

import { toIdentity } from "../../src/core/identity.ts";
import { digestParameters, OPERATION } from "../../src/reservations/action-request.ts";
import { digestHashes, hashEvent, type JournalEvent } from "../../src/reservations/journal.ts";
import { NAMESPACE, OTHER, type TamperingScene } from "./tampering-scene.ts";

export interface Tampering {
  readonly how: string;
  /** The statements; none if the database has nothing to alter. */
  readonly sql: (scene: TamperingScene) => readonly string[];
  /** The beginning of the offender's name, or `unseen`: docs/audit.md lists it with the reason. */
  readonly names: ((scene: TamperingScene) => string) | "unseen";
  /** With an anchor, the audit sees it and names this resource. */
  readonly anchored?: string;
}

type Which = keyof TamperingScene["ids"];

const COMMITMENTS = "nevertwice_commitments";
const RESOURCES = "nevertwice_resources";
const KEYS = "nevertwice_reservation_keys";
const EVENTS = "nevertwice_reservation_events";

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;
const inside = (namespace = NAMESPACE) => `namespace = ${quoted(namespace)}`;
const theCommitment = (id: string) => `${inside()} AND id = ${quoted(id)}`;
const theResource = (name: string) => `${inside()} AND name = ${quoted(name)}`;
const theKey = ({ dialect, keys }: TamperingScene, key: string) =>
  `${inside()} AND id = ${dialect.hash(keys.get(key)?.id ?? "")}`;
const theEvent = ({ subject, number }: JournalEvent) =>
  `${inside()} AND subject = ${quoted(subject)} AND number = ${number}`;
const theCheckpoint = (id: string) => `${inside()} AND id = ${quoted(id)}`;

const update = (table: string, set: string, where: string) => `UPDATE ${table} SET ${set} WHERE ${where}`;
const remove = (table: string, where: string) => `DELETE FROM ${table} WHERE ${where}`;

/** A row of a commitment. */
function commitment(how: string, which: Which, set: (scene: TamperingScene) => string): Tampering {
  return {
    how: `commitment: ${how}`,
    sql: (scene) => [update(COMMITMENTS, set(scene), theCommitment(scene.ids[which]))],
    names: ({ ids }) => `commitment:${ids[which]}`,
  };
}

function resource(how: string, name: string, set: (scene: TamperingScene) => string): Tampering {
  return {
    how: `resource: ${how}`,
    sql: (scene) => [update(RESOURCES, set(scene), theResource(name))],
    names: () => `resource:${name}`,
  };
}

function key(how: string, name: string, set: (scene: TamperingScene) => string): Tampering {
  return {
    how: `key: ${how}`,
    sql: (scene) => [update(KEYS, set(scene), theKey(scene, name))],
    names: ({ keys }) => `key:${keys.get(name)?.id}`,
  };
}

/** The event of a key. */
function event(
  how: string,
  by: string,
  set: (event: JournalEvent, scene: TamperingScene) => string,
  names: (scene: TamperingScene) => string = (scene) => scene.by(by).subject,
): Tampering {
  return {
    how: `event: ${how}`,
    sql: (scene) => [update(EVENTS, set(scene.by(by), scene), theEvent(scene.by(by)))],
    names,
  };
}

/** The checkpoint of a key's transaction. Its event names it too. */
function checkpoint(
  how: string,
  by: string,
  set: (event: JournalEvent, scene: TamperingScene) => string,
  names: (event: JournalEvent) => string = (one) => `checkpoint:${one.checkpoint}`,
): Tampering {
  return {
    how: `checkpoint: ${how}`,
    sql: (scene) => [
      update(scene.dialect.checkpoints, set(scene.by(by), scene), theCheckpoint(scene.by(by).checkpoint)),
    ],
    names: (scene) => names(scene.by(by)),
  };
}

const ANOTHER_HASH = "ab".repeat(32);
const aHash = ({ dialect }: TamperingScene) => dialect.hash(ANOTHER_HASH);
const other = quoted(OTHER);

const COMMITMENT_ROWS: readonly Tampering[] = [
  { ...commitment("another id", "held", () => "id = 'another'"), names: () => "commitment:another" },
  commitment("another resource", "held", () => "resource = 'seat-9'"),
  commitment("another requester", "held", () => "requester = 'eve'"),
  commitment("the requester blanked, as if erased", "held", () => "requester = '', requester_salt = ''"),
  commitment(
    "the requester of an ended one blanked, as if erased",
    "confirmed",
    () => "requester = '', requester_salt = ''",
  ),
  commitment("another salt", "held", () => "requester_salt = 'x'"),
  commitment("fewer units", "partial", () => "units = 4"),
  commitment("another time of placement", "held", () => "placed_at = placed_at - 1"),
  commitment("a longer hold", "confirmed", () => "expires_at = expires_at + 1000"),
  commitment(
    "released by hand",
    "held",
    ({ dialect }) =>
      `state = 'released', ended_at = placed_at, occupied = 0${dialect.writer === "checkpoint" ? ", held_until = NULL" : ""}`,
  ),
  commitment(
    "held again",
    "released",
    ({ dialect }) =>
      `state = 'held', ended_at = NULL, occupied = units${dialect.writer === "checkpoint" ? ", held_until = expires_at" : ""}`,
  ),
  commitment(
    "confirmed instead of released",
    "released",
    () => "state = 'confirmed', confirmed_units = 1, occupied = 1",
  ),
  commitment("expired instead of released", "released", () => "state = 'expired', ended_at = expires_at"),
  commitment("another end", "confirmed", () => "ended_at = ended_at + 1"),
  commitment("more units confirmed", "partial", () => "confirmed_units = 4"),
  commitment("other occupied units", "partial", () => "occupied = 3"),
  commitment("another number of events", "confirmed", () => "events = 3"),
  commitment("another last hash", "confirmed", (scene) => `last_hash = ${aHash(scene)}`),
  commitment("moved to another namespace", "confirmed", () => `namespace = ${other}`),
  {
    how: "commitment: deleted",
    sql: ({ ids }) => [remove(COMMITMENTS, theCommitment(ids.confirmed))],
    names: ({ ids }) => `commitment:${ids.confirmed}`,
  },
  {
    how: "commitment: two given to another requester",
    sql: ({ ids }) => [
      update(COMMITMENTS, "requester = 'zoe'", theCommitment(ids.held)),
      update(COMMITMENTS, "requester = 'zoe'", theCommitment(ids.confirmed)),
    ],
    names: ({ ids }) => `commitment:${ids.held}`,
  },
  {
    how: "commitment: two swap their ids",
    sql: ({ ids }) => [
      update(COMMITMENTS, "id = 'between'", theCommitment(ids.confirmed)),
      update(COMMITMENTS, `id = ${quoted(ids.confirmed)}`, theCommitment(ids.released)),
      update(COMMITMENTS, `id = ${quoted(ids.released)}`, theCommitment("between")),
    ],
    names: ({ ids }) => `commitment:${ids.confirmed}`,
  },
  {
    how: "commitment: all deleted",
    sql: () => [remove(COMMITMENTS, inside())],
    names: ({ ids }) => `commitment:${ids.held}`,
  },
];

const RESOURCE_ROWS: readonly Tampering[] = [
  { ...resource("another name", "pool", () => "name = 'lake'"), names: () => "resource:lake" },
  resource("another capacity", "pool", () => "capacity = 11"),
  resource("more units taken", "pool", () => "taken = 9"),
  resource("fewer units taken", "pool", () => "taken = 0"),
  resource("suspended by hand", "pool", () => "state = 'suspended'"),
  resource("declared by hand", "seat-1", ({ dialect }) => `is_declared = ${dialect.yes}, capacity = 2`),
  resource("fewer events", "pool", () => "events = events - 1"),
  resource("another last hash", "pool", (scene) => `last_hash = ${aHash(scene)}`),
  resource(
    "the last hash of an earlier event",
    "pool",
    (scene) => `last_hash = ${scene.dialect.hash(scene.by("partial").hash)}`,
  ),
  resource("moved to another namespace", "bed", () => `namespace = ${other}`),
  {
    how: "resource: deleted",
    sql: () => [remove(RESOURCES, theResource("pool"))],
    names: () => "resource:pool",
  },
  {
    how: "resource: an ended one deleted",
    sql: () => [remove(RESOURCES, theResource("seat-3"))],
    names: () => "resource:seat-3",
  },
  {
    how: "resource: forged",
    sql: ({ dialect }) => [
      `INSERT INTO ${RESOURCES} (namespace, name, capacity, taken, state, is_declared, events, last_hash)
       VALUES (${quoted(NAMESPACE)}, 'forged', 9, 0, 'open', ${dialect.yes}, 1, ${dialect.hash(ANOTHER_HASH)})`,
    ],
    names: () => "resource:forged",
  },
];

const KEY_ROWS: readonly Tampering[] = [
  {
    ...key("another id", "confirm", (scene) => `id = ${aHash(scene)}`),
    names: () => `key:${ANOTHER_HASH}`,
  },
  key("another text", "confirm", ({ dialect }) => dialect.named("", "forged")),
  key("another scope", "confirm", ({ dialect }) => dialect.named("forged", "confirm")),
  key("another action", "release", () => "action = 'confirm'"),
  key("another digest", "confirm", ({ dialect }) => `digest = ${dialect.digest(`1:${ANOTHER_HASH}`)}`),
  key("other parameters", "place-seat-1", () => "parameters = replace(parameters, 'ann', 'eve')"),
  key("other parameters with their digest", "place-seat-1", ({ dialect, keys }) => {
    const parameters = { ...keys.get("place-seat-1")?.parameters, requester: "eve" };
    return `parameters = ${quoted(JSON.stringify(parameters))}, digest = ${dialect.digest(digestParameters("placeHold", parameters))}`;
  }),
  key("other units in the parameters, with their digest", "confirm", ({ dialect, keys }) => {
    const parameters = { ...keys.get("confirm")?.parameters, units: 1 };
    return `parameters = ${quoted(JSON.stringify(parameters))}, digest = ${dialect.digest(digestParameters("confirm", parameters))}`;
  }),
  key(
    "the answer names another commitment",
    "place-seat-1",
    ({ ids }) => `answer = replace(answer, ${quoted(ids.held)}, ${quoted(ids.released)})`,
  ),
  key(
    "the answer was a refusal",
    "confirm",
    () => `answer = replace(answer, '"ok":true', '"ok":false,"reason":"not-held"')`,
  ),
  key(
    "a refusal became an ok",
    "refused-confirm",
    () => `answer = replace(answer, '"ok":false,"reason":"not-held"', '"ok":true')`,
  ),
  key(
    "a refusal with another reason",
    "refused-confirm",
    () => "answer = replace(answer, 'not-held', 'window-elapsed')",
  ),
  key("a refusal with another text", "refused", () => "answer = replace(answer, 'requested', 'wished')"),
  key(
    "a refusal of an unknown id with another reason",
    "refused-unknown",
    () => "answer = replace(answer, 'not-known', 'not-held')",
  ),
  key("another salt", "confirm", () => `answer = replace(answer, '"salt":"', '"salt":"x')`),
  key("no salt, as if erased", "confirm", () => `answer = replace(answer, '"salt"', '"sold"')`),
  key("another window", "confirm", () => "answer = replace(answer, '600000', '600001')"),
  key("another commitment", "confirm", ({ ids }) => `commitment = ${quoted(ids.held)}`),
  key("another commitment of a refusal", "refused-confirm", ({ ids }) => `commitment = ${quoted(ids.held)}`),
  key(
    "another time",
    "confirm",
    () => "recorded_at = recorded_at - 1, window_ends_at = window_ends_at - 1, kept_until = kept_until - 1",
  ),
  key(
    "another time of a refusal",
    "refused",
    () => "recorded_at = recorded_at - 1, window_ends_at = window_ends_at - 1, kept_until = kept_until - 1",
  ),
  key("a longer window", "confirm", () => "window_ends_at = window_ends_at + 1"),
  key("kept for longer", "confirm", () => "kept_until = kept_until + 1"),
  {
    ...key("moved to another namespace", "release", () => `namespace = ${other}`),
    how: "key: moved to another namespace",
  },
  ...["confirm", "declare", "refused", "refused-unknown"].map((name) => ({
    how: `key: ${name} deleted`,
    sql: (scene: TamperingScene) => [remove(KEYS, theKey(scene, name))],
    names: ({ keys }: TamperingScene) => `key:${keys.get(name)?.id}`,
  })),
  {
    how: "key: a refusal forged, under the right id",
    sql: (scene) => {
      const id = toIdentity({ namespace: NAMESPACE, scope: "", operation: OPERATION, key: "forged" }).id;
      return [
        update(
          KEYS,
          `id = ${scene.dialect.hash(id)}, ${scene.dialect.named("", "forged")}`,
          theKey(scene, "refused"),
        ),
      ];
    },
    names: () =>
      `key:${toIdentity({ namespace: NAMESPACE, scope: "", operation: OPERATION, key: "forged" }).id}`,
  },
  {
    how: "key: all deleted",
    sql: () => [remove(KEYS, inside())],
    names: ({ keys }) => `key:${keys.get("confirm")?.id}`,
  },
];

const EVENT_ROWS: readonly Tampering[] = [
  event(
    "another subject",
    "confirm",
    () => "subject = 'commitment:another'",
    () => "commitment:another",
  ),
  event("another number", "confirm", () => "number = 7"),
  event("in the chain of another resource", "confirm", () => "resource = 'pool'"),
  event("in no chain", "confirm", () => "resource = NULL, entry = 0"),
  event(
    "another position in the chain",
    "refused",
    () => "entry = 9",
    () => "resource:seat-1",
  ),
  event("another kind", "release", () => "kind = 'expired'"),
  event("another time", "confirm", () => "at = at + 1"),
  event("another key", "confirm", (_, scene) => `key_id = ${aHash(scene)}`),
  event("no key", "confirm", () => "key_id = NULL"),
  event("another detail", "partial", () => "detail = replace(detail, '\"units\":3', '\"units\":4')"),
  event("another window", "confirm", () => "detail = replace(detail, '600000', '600001')"),
  event(
    "another requester's digest",
    "place-seat-1",
    () => `detail = replace(detail, '"requester":"', '"requester":"0')`,
  ),
  event(
    "another reason of a refusal",
    "refused",
    () => "detail = replace(detail, 'resource-unavailable', 'pool-suspended')",
  ),
  event(
    "another reason of a refusal of an unknown id",
    "refused-unknown",
    () => "detail = replace(detail, 'not-known', 'not-held')",
  ),
  event("another previous hash", "confirm", (_, scene) => `previous = ${aHash(scene)}`),
  event("another hash", "confirm", (_, scene) => `hash = ${aHash(scene)}`),
  event(
    "another checkpoint",
    "confirm",
    (_, scene) => `checkpoint = ${quoted(scene.by("release").checkpoint)}`,
  ),
  event("moved to another namespace", "confirm", () => `namespace = ${other}`),
  event("a new detail with its hash", "refused", (old, { dialect }) => {
    const forged = { ...old, detail: old.detail.replace("resource-unavailable", "pool-suspended") };
    return `detail = ${quoted(forged.detail)}, hash = ${dialect.hash(hashEvent(forged))}`;
  }),
  ...(
    ["place-seat-2", "partial", "give-back", "refused", "refused-unknown", "adjust", "declare"] as const
  ).map(
    (by): Tampering => ({
      how: `event: ${by} deleted`,
      sql: (scene) => [remove(EVENTS, theEvent(scene.by(by)))],
      names: (scene) => `checkpoint:${scene.by(by).checkpoint}`,
    }),
  ),
  {
    how: "event: two swap their positions",
    sql: (scene) => {
      const [first, second] = [scene.by("partial"), scene.by("give-back")];
      return [
        update(EVENTS, "number = 99", theEvent(first)),
        update(EVENTS, `number = ${first.number}, entry = ${first.entry}`, theEvent(second)),
        update(
          EVENTS,
          `number = ${second.number}, entry = ${second.entry}`,
          theEvent({ ...first, number: 99 }),
        ),
      ];
    },
    names: ({ ids }) => `commitment:${ids.partial}`,
  },
  {
    how: "event: forged at the end of a chain, with its hash and both rows",
    sql: (scene) => {
      const last = scene.by("refused");
      const forged = { ...last, number: last.entry + 1, entry: last.entry + 1, previous: last.hash };
      const { dialect } = scene;
      const hash = dialect.hash(hashEvent(forged));
      return [
        `INSERT INTO ${EVENTS} (namespace, subject, number, resource, entry, kind, at, key_id, detail, previous, hash, checkpoint)
         SELECT namespace, subject, ${forged.number}, resource, ${forged.entry}, kind, at, key_id, detail,
           ${dialect.hash(forged.previous)}, ${hash}, checkpoint FROM ${EVENTS} WHERE ${theEvent(last)}`,
        update(RESOURCES, `events = ${forged.entry}, last_hash = ${hash}`, theResource("seat-1")),
      ];
    },
    names: (scene) => `checkpoint:${scene.by("refused").checkpoint}`,
  },
  {
    how: "event: the newest one of a chain cut off, and both rows put back",
    sql: (scene) => {
      const last = scene.by("refused");
      const before = scene.events.find(
        ({ resource: name, entry }) => name === last.resource && entry === last.entry - 1,
      ) as JournalEvent;
      return [
        remove(EVENTS, theEvent(last)),
        update(
          RESOURCES,
          `events = ${before.entry}, last_hash = ${scene.dialect.hash(before.hash)}`,
          theResource("seat-1"),
        ),
      ];
    },
    names: (scene) => `key:${scene.keys.get("refused")?.id}`,
  },
  {
    how: "event: all deleted",
    sql: () => [remove(EVENTS, inside())],
    names: ({ ids }) => `commitment:${ids.held}`,
  },
];

const CHECKPOINT_ROWS: readonly Tampering[] = [
  checkpoint(
    "another id",
    "confirm",
    () => "id = 'another'",
    () => "checkpoint:another",
  ),
  checkpoint("another time", "confirm", () => "at = at + 1"),
  checkpoint("another number of events", "confirm", () => "events = 2"),
  checkpoint("another digest", "confirm", (_, scene) => `digest = ${aHash(scene)}`),
  checkpoint(
    "moved to another namespace",
    "confirm",
    () => `namespace = ${other}`,
    ({ subject }) => subject,
  ),
  {
    how: "checkpoint: deleted",
    sql: (scene) => [remove(scene.dialect.checkpoints, theCheckpoint(scene.by("refused").checkpoint))],
    names: (scene) => scene.by("refused").subject,
  },
  {
    how: "checkpoint: forged",
    sql: ({ dialect }) => [
      `INSERT INTO ${dialect.checkpoints} (namespace, id, at, events, digest)
       VALUES (${quoted(NAMESPACE)}, 'forged', 1, 1, ${dialect.hash(ANOTHER_HASH)})`,
    ],
    names: () => "checkpoint:forged",
  },
  {
    how: "checkpoint: all deleted",
    sql: ({ dialect }) => [remove(dialect.checkpoints, inside())],
    names: ({ ids }) => `commitment:${ids.held}`,
  },
];

/** Removes events with their keys and checkpoints. */
function withoutTraces(scene: TamperingScene, gone: readonly JournalEvent[]): string[] {
  const { dialect } = scene;
  return gone.flatMap((one) => [
    remove(EVENTS, theEvent(one)),
    remove(dialect.checkpoints, theCheckpoint(one.checkpoint)),
    ...(one.keyId === undefined ? [] : [remove(KEYS, `${inside()} AND id = ${dialect.hash(one.keyId)}`)]),
  ]);
}

const inChainOf = ({ events }: TamperingScene, name: string) =>
  events.filter((one) => one.resource === name).sort((a, b) => a.entry - b.entry);

const SEVERAL_TABLES: readonly Tampering[] = [
  {
    how: "a commitment with its events, keys and checkpoints deleted",
    sql: (scene) => [
      ...withoutTraces(scene, scene.of(`commitment:${scene.ids.expired}`)),
      remove(COMMITMENTS, theCommitment(scene.ids.expired)),
    ],
    names: () => "resource:bed",
  },
  {
    how: "a refusal with its event, key and checkpoint deleted",
    sql: (scene) => withoutTraces(scene, [scene.by("refused")]),
    names: () => "resource:seat-1",
  },
  {
    how: "a refusal of an unknown id, with its event, key and checkpoint deleted",
    sql: (scene) => withoutTraces(scene, [scene.by("refused-unknown")]),
    names: "unseen",
  },
  {
    how: "the newest events of a resource deleted with all their traces, and its rows put back",
    sql: (scene) => {
      const last = scene.by("refused");
      const before = inChainOf(scene, "seat-1").at(-2) as JournalEvent;
      return [
        ...withoutTraces(scene, [last]),
        update(
          RESOURCES,
          `events = ${before.entry}, last_hash = ${scene.dialect.hash(before.hash)}`,
          theResource("seat-1"),
        ),
      ];
    },
    names: "unseen",
    anchored: "seat-1",
  },
  {
    how: "a resource deleted with all of its events, commitments, keys and checkpoints",
    sql: (scene) => [
      ...withoutTraces(scene, inChainOf(scene, "bed")),
      remove(COMMITMENTS, theCommitment(scene.ids.expired)),
      remove(RESOURCES, theResource("bed")),
    ],
    names: "unseen",
    anchored: "bed",
  },
  {
    how: "the newest event of a resource rewritten, with every row and hash that follows from it",
    sql: (scene) => {
      const { dialect } = scene;
      const old = scene.by("refused");
      const forged = {
        ...old,
        detail: old.detail.replace("1 units were requested", "2 units were requested"),
      };
      const hash = hashEvent(forged);
      return [
        update(EVENTS, `detail = ${quoted(forged.detail)}, hash = ${dialect.hash(hash)}`, theEvent(old)),
        update(RESOURCES, `last_hash = ${dialect.hash(hash)}`, theResource("seat-1")),
        update(
          dialect.checkpoints,
          `digest = ${dialect.hash(digestHashes([hash]))}`,
          theCheckpoint(old.checkpoint),
        ),
        update(
          KEYS,
          "answer = replace(answer, '1 units were requested', '2 units were requested')",
          theKey(scene, "refused"),
        ),
      ];
    },
    names: "unseen",
    anchored: "seat-1",
  },
  {
    how: "every row of the namespace deleted",
    sql: ({ dialect }) =>
      [COMMITMENTS, RESOURCES, KEYS, EVENTS, dialect.checkpoints].map((table) => remove(table, inside())),
    names: "unseen",
    anchored: "pool",
  },
  {
    how: "the name of the transaction that wrote a key",
    sql: (scene) =>
      scene.dialect.writer === undefined
        ? []
        : [
            update(
              KEYS,
              `${scene.dialect.writer} = ${quoted(scene.by("release").checkpoint)}`,
              theKey(scene, "confirm"),
            ),
          ],
    names: "unseen",
  },
];

const changedDetail = (old: JournalEvent, from: string, to: string) =>
  `detail = ${quoted(old.detail.replace(from, to))}`;

/** Who acted, who was refused, and who was erased. */
const PEOPLE: readonly Tampering[] = [
  event("another actor", "confirm", (old) => changedDetail(old, "till-1", "till-2")),
  event("no actor", "confirm", (old) => changedDetail(old, ',"actor":"till-1"', "")),
  event("another actor with its hash", "confirm", (old, { dialect }) => {
    const forged = { ...old, detail: old.detail.replace("till-1", "till-2") };
    return `detail = ${quoted(forged.detail)}, hash = ${dialect.hash(hashEvent(forged))}`;
  }),
  {
    how: "a refusal of an actor given to another one",
    sql: ({ denial }) => [update(EVENTS, changedDetail(denial, '"eve"', '"bob"'), theEvent(denial))],
    names: ({ denial }) => denial.subject,
  },
  {
    how: "a refusal of an actor with another reason in its answer",
    sql: ({ dialect, denial }) => [
      update(
        KEYS,
        "answer = replace(answer, 'not-authorized', 'not-held')",
        `${inside()} AND id = ${dialect.hash(denial.keyId ?? "")}`,
      ),
    ],
    names: ({ denial }) => `key:${denial.keyId}`,
  },
  {
    how: "a refusal of an actor deleted",
    sql: ({ denial }) => [remove(EVENTS, theEvent(denial))],
    names: ({ denial }) => `checkpoint:${denial.checkpoint}`,
  },
  {
    how: "a refusal of an actor with its event, key and checkpoint deleted",
    sql: (scene) => withoutTraces(scene, [scene.denial]),
    names: () => "resource:seat-1",
  },
  commitment("a requester who was erased put back", "erased", () => "requester = 'zed'"),
  {
    how: "an erasure deleted with its checkpoint",
    sql: (scene) => withoutTraces(scene, [scene.erasure]),
    names: ({ ids }) => `commitment:${ids.erased}`,
  },
  {
    how: "an erasure ascribed to another time",
    sql: ({ erasure }) => [update(EVENTS, "at = at + 1", theEvent(erasure))],
    names: ({ erasure }) => erasure.subject,
  },
];

export const TAMPERINGS: readonly Tampering[] = [
  ...COMMITMENT_ROWS,
  ...RESOURCE_ROWS,
  ...KEY_ROWS,
  ...EVENT_ROWS,
  ...CHECKPOINT_ROWS,
  ...SEVERAL_TABLES,
  ...PEOPLE,
];
