/** Tests every invariant broken once on purpose: the audit finds it under its number, and elsewhere only where that follows. */
import { describe, expect, test } from "vitest";
import { digestParameters } from "../../src/reservations/action-request.ts";
import { INVARIANT_IDS, type InvariantId } from "../../src/reservations/audit/invariants.ts";
import type { JournalEvent, KeptCommitment, KeptResource, KeyRecord } from "../../src/reservations/index.ts";
import { createEvent, digestHashes, hashEvent } from "../../src/reservations/journal.ts";
import {
  type Alterations,
  type AuditScene,
  broken,
  listOffenders,
  NAMESPACE,
  openAuditScene,
  WINDOW_MS,
} from "./audit-scene.ts";

interface Break {
  readonly how: string;
  readonly finds: InvariantId;
  /** What follows from it, and is found as well. */
  readonly also?: readonly InvariantId[];
  /** What the offender is called. */
  readonly subject: (scene: AuditScene) => Promise<string> | string;
  readonly alter: (scene: AuditScene) => Promise<Alterations> | Alterations;
}

type Ids = AuditScene["ids"];
const commitmentCalled = (which: keyof Ids) => (scene: AuditScene) => `commitment:${scene.ids[which]}`;
const keyCalled = (key: string) => async (scene: AuditScene) => `key:${(await scene.key(key)).id}`;

/** Changes the row of one commitment. */
function commitment(which: keyof Ids, change: (row: KeptCommitment) => object) {
  return ({ ids }: AuditScene): Alterations => ({
    commitment: (row) => (row.id === ids[which] ? ({ ...row, ...change(row) } as KeptCommitment) : row),
  });
}

function resource(name: string, change: object) {
  return (): Alterations => ({
    resource: (row) => (row.name === name ? ({ ...row, ...change } as KeptResource) : row),
  });
}

function key(name: string, change: (row: KeyRecord, ids: Ids) => object) {
  return ({ ids }: AuditScene): Alterations => ({
    key: (row) => (row.key === name ? ({ ...row, ...change(row, ids) } as KeyRecord) : row),
  });
}

/** Changes one event and recomputes its hash. */
function event(which: keyof Ids, kind: string, change: (row: JournalEvent) => object) {
  return ({ ids }: AuditScene): Alterations => ({
    event: (row) => {
      if (row.subject !== `commitment:${ids[which]}` || row.kind !== kind) return row;
      const changed = { ...row, ...change(row) };
      return { ...changed, hash: hashEvent(changed) };
    },
  });
}

/** Appends a forged event to a chain: its hash is correct and the row counts it, but no checkpoint contains it. */
async function oneMore(
  { ids, commitment: read, resource: readResource, events }: AuditScene,
  which: keyof Ids,
  happening: Pick<JournalEvent, "kind" | "keyId"> & { readonly detail: object },
): Promise<Alterations> {
  const id = ids[which];
  const subject = `commitment:${id}`;
  const row = await read(id);
  const last = (await events(subject)).at(-1) as JournalEvent;
  const more = createEvent(
    await readResource(row.resource),
    {
      namespace: NAMESPACE,
      subject,
      number: row.events + 1,
      resource: row.resource,
      at: last.at,
      ...happening,
    },
    last.checkpoint,
  );
  return {
    moreEvents: [more],
    resource: (found) =>
      found.name === row.resource ? { ...found, events: more.entry, lastHash: more.hash } : found,
    commitment: (found) => (found.id === id ? { ...found, events: more.number, lastHash: more.hash } : found),
  };
}

const BREAKS: readonly Break[] = [
  {
    how: "a key whose answer is not JSON",
    finds: "S1",
    subject: async ({ key }) => `key:${(await key("place-seat-1")).id}`,
    async alter({ key }) {
      const { id } = await key("place-seat-1");
      const unreadable = {
        table: "nevertwice_reservation_keys",
        row: id,
        column: "answer",
        reason: "it is no JSON",
      };
      return { key: (row) => (row.id === id ? undefined : row), unreadableKeys: [unreadable] };
    },
  },
  {
    how: "a held commitment with an end time",
    finds: "C1",
    subject: commitmentCalled("held"),
    alter: commitment("held", ({ placedAt }) => ({ endedAt: placedAt })),
  },
  {
    how: "a state that does not exist",
    finds: "C1",
    also: ["C2", "P2"],
    subject: commitmentCalled("held"),
    alter: commitment("held", ({ placedAt }) => ({ state: "pending", endedAt: placedAt, occupied: 0 })),
  },
  {
    how: "a hold that was released without an event",
    finds: "C2",
    also: ["P2"],
    subject: commitmentCalled("held"),
    alter: commitment("held", ({ placedAt }) => ({ state: "released", endedAt: placedAt, occupied: 0 })),
  },
  {
    how: "a released hold that is held again",
    finds: "C3",
    also: ["P2"],
    subject: commitmentCalled("released"),
    alter: commitment("released", () => ({ state: "held", endedAt: undefined, occupied: 1 })),
  },
  {
    how: "a confirmed hold with a second end",
    finds: "C3",
    also: ["J3"],
    subject: commitmentCalled("confirmed"),
    alter: (scene) => oneMore(scene, "confirmed", { kind: "expired", keyId: undefined, detail: {} }),
  },
  {
    how: "a row with a changed id",
    finds: "C4",
    also: ["C10", "J5"],
    subject: () => "commitment:another",
    alter: commitment("held", () => ({ id: "another" })),
  },
  {
    how: "a changed requester",
    finds: "C5",
    subject: commitmentCalled("held"),
    alter: commitment("held", () => ({ requester: "eve" })),
  },
  {
    how: "a changed end of the hold",
    finds: "C5",
    subject: commitmentCalled("held"),
    alter: commitment("held", ({ expiresAt }) => ({ expiresAt: expiresAt + 1 })),
  },
  {
    how: "a hold that expires when it is placed",
    finds: "C6",
    also: ["C5"],
    subject: commitmentCalled("held"),
    alter: commitment("held", ({ placedAt }) => ({ expiresAt: placedAt })),
  },
  {
    how: "a confirmation at expiresAt",
    finds: "C7",
    also: ["J4"],
    subject: commitmentCalled("confirmed"),
    alter: commitment("confirmed", ({ expiresAt }) => ({ endedAt: expiresAt })),
  },
  {
    how: "a release before the placement",
    finds: "C8",
    also: ["J4"],
    subject: commitmentCalled("released"),
    alter: commitment("released", ({ placedAt }) => ({ endedAt: placedAt - 1 })),
  },
  {
    how: "an expiry before expiresAt",
    finds: "C8",
    also: ["J4"],
    subject: commitmentCalled("expired"),
    alter: commitment("expired", ({ expiresAt }) => ({ endedAt: expiresAt - 1 })),
  },
  {
    how: "two rows with the same id",
    finds: "C9",
    also: ["J1", "J4", "P2"],
    subject: commitmentCalled("held"),
    alter: async ({ commitment: read, ids }) => ({ moreCommitments: [await read(ids.held)] }),
  },
  {
    how: "an id that was placed twice",
    finds: "C9",
    also: ["J3", "R7"],
    subject: commitmentCalled("held"),
    alter: async (scene) =>
      oneMore(scene, "held", { kind: "placed", keyId: "f".repeat(64), detail: { resource: "seat-1" } }),
  },
  {
    how: "a commitment that was deleted",
    finds: "C10",
    also: ["J1", "J4", "P2"],
    subject: commitmentCalled("held"),
    alter: ({ ids }) => ({ commitment: (row) => (row.id === ids.held ? undefined : row) }),
  },
  {
    how: "a key from the future",
    finds: "D1",
    also: ["D2"],
    subject: keyCalled("refused"),
    alter: key("refused", (row) => shifted(row, WINDOW_MS)),
  },
  {
    how: "a window that a retry extended",
    finds: "D2",
    also: ["R7"],
    subject: keyCalled("place-seat-1"),
    alter: key("place-seat-1", ({ windowEndsAt, keptUntil }) => ({
      windowEndsAt: windowEndsAt + 1,
      keptUntil: keptUntil + 1,
    })),
  },
  {
    how: "a window that a retry restarted",
    finds: "D2",
    subject: keyCalled("place-bed"),
    alter: key("place-bed", (row) => shifted(row, 1)),
  },
  {
    how: "a key without an answer",
    finds: "D3",
    subject: keyCalled("refused"),
    alter: key("refused", () => ({ answer: undefined })),
  },
  {
    how: "a window without an end",
    finds: "D4",
    also: ["D2", "R7"],
    subject: keyCalled("refused"),
    alter: key("refused", () => ({
      windowEndsAt: Number.POSITIVE_INFINITY,
      keptUntil: Number.POSITIVE_INFINITY,
    })),
  },
  {
    how: "an answer with an id that has no placed event of the key",
    finds: "R1",
    also: ["R3", "R4"],
    subject: keyCalled("refused"),
    alter: key("refused", () => ({
      answer: { ok: true, id: "nobody" },
      commitment: "nobody",
      digest: "1:0",
    })),
  },
  {
    how: "a rejection, although a hold was placed",
    finds: "R1",
    subject: keyCalled("place-seat-1"),
    alter: key("place-seat-1", () => ({
      answer: { ok: false, reason: "resource-unavailable" },
      commitment: undefined,
    })),
  },
  {
    how: "an ok, although the action was rejected",
    finds: "R2",
    also: ["R3"],
    subject: keyCalled("refused-confirm"),
    alter: key("refused-confirm", () => ({ answer: { ok: true } })),
  },
  {
    how: "a rejection, although the hold was confirmed",
    finds: "R2",
    subject: keyCalled("confirm"),
    alter: key("confirm", () => ({ answer: { ok: false, reason: "not-held" } })),
  },
  {
    how: "a key that refers to another commitment than the one it placed",
    finds: "R3",
    subject: keyCalled("place-seat-1"),
    alter: key("place-seat-1", (_, ids) => ({ commitment: ids.released })),
  },
  {
    how: "two commitments with one key",
    finds: "R3",
    // The other key loses its event, the chain its hash, and its checkpoint an event.
    also: ["R1", "R8", "J1", "J3"],
    subject: keyCalled("place-seat-1"),
    alter: async (scene) => {
      const { id } = await scene.key("place-seat-1");
      return event("released", "placed", () => ({ keyId: id }))(scene);
    },
  },
  {
    how: "a digest of other parameters",
    finds: "R4",
    subject: keyCalled("place-seat-1"),
    alter: key("place-seat-1", ({ parameters }) => ({ parameters: { ...parameters, requester: "eve" } })),
  },
  {
    how: "a changed action",
    finds: "R4",
    subject: keyCalled("release"),
    alter: key("release", () => ({ action: "confirm" })),
  },
  {
    how: "a rejection that is impossible for its action",
    finds: "R5",
    also: ["R1"],
    subject: keyCalled("refused"),
    alter: key("refused", () => ({ answer: { ok: false, reason: "window-not-elapsed" } })),
  },
  {
    how: "a key stored under the id of another key",
    finds: "R6",
    subject: keyCalled("refused"),
    alter: key("refused", () => ({ scope: "another" })),
  },
  {
    how: "an answer that is kept for less than its window",
    finds: "R7",
    subject: keyCalled("refused"),
    alter: key("refused", ({ windowEndsAt }) => ({ keptUntil: windowEndsAt - 1 })),
  },
  {
    how: "a key that was removed before its window ended",
    finds: "R7",
    subject: keyCalled("place-seat-1"),
    alter: () => ({ key: (row) => (row.key === "place-seat-1" ? undefined : row) }),
  },
  {
    how: "a key that was recorded again within its window",
    finds: "R7",
    also: ["R1"],
    subject: keyCalled("place-bed"),
    alter: key("place-bed", (row) => ({
      ...shifted(row, 1),
      answer: { ok: false, reason: "resource-unavailable" },
      commitment: undefined,
    })),
  },
  {
    how: "one key with two given-back events",
    finds: "R8",
    also: ["P3", "J3"],
    subject: keyCalled("give-back"),
    alter: async (scene) =>
      oneMore(scene, "partial", {
        kind: "given-back",
        keyId: (await scene.key("give-back")).id,
        detail: { units: 1 },
      }),
  },
  {
    how: "more units taken than the capacity",
    finds: "P1",
    also: ["P2"],
    subject: () => "resource:stock",
    alter: resource("stock", { taken: 11 }),
  },
  {
    how: "taken units without a commitment",
    finds: "P2",
    subject: () => "resource:stock",
    alter: resource("stock", { taken: 3 }),
  },
  {
    how: "a resource whose row was removed",
    finds: "P2",
    also: ["J5"],
    subject: () => "resource:seat-1",
    alter: () => ({ resource: (row) => (row.name === "seat-1" ? undefined : row) }),
  },
  {
    how: "a confirmed commitment that still occupies units it gave back",
    finds: "P3",
    also: ["P2"],
    subject: commitmentCalled("partial"),
    alter: commitment("partial", () => ({ occupied: 3 })),
  },
  {
    how: "a closed resource that is open again",
    finds: "P4",
    also: ["P5"],
    subject: () => "resource:old",
    alter: resource("old", { state: "open" }),
  },
  {
    how: "a capacity that no event set",
    finds: "P5",
    subject: () => "resource:stock",
    alter: resource("stock", { capacity: 11 }),
  },
  {
    how: "an event that was removed from the middle of a chain",
    finds: "J1",
    also: ["C2", "C3", "J3", "J4", "R2"],
    subject: commitmentCalled("partial"),
    alter: ({ ids }) => ({
      event: (row) =>
        row.subject === `commitment:${ids.partial}` && row.kind === "confirmed" ? undefined : row,
    }),
  },
  {
    how: "an event that was altered",
    finds: "J2",
    also: ["C5", "R4"],
    subject: commitmentCalled("held"),
    alter: ({ ids }) => ({
      event: (row) =>
        row.subject === `commitment:${ids.held}`
          ? { ...row, detail: row.detail.replace('"units":1', '"units":2') }
          : row,
    }),
  },
  {
    how: "an event that was removed from the end of a chain",
    finds: "J4",
    also: ["P3", "J1", "J3", "R2"],
    subject: commitmentCalled("partial"),
    alter: ({ ids }) => ({
      event: (row) =>
        row.subject === `commitment:${ids.partial}` && row.kind === "given-back" ? undefined : row,
    }),
  },
  {
    how: "a checkpoint that was removed",
    finds: "J3",
    subject: commitmentCalled("held"),
    alter: async ({ events, ids }) => {
      const [placed] = await events(`commitment:${ids.held}`);
      return { checkpoint: (row) => (row.id === placed?.checkpoint ? undefined : row) };
    },
  },
  {
    how: "an end time that differs from its event",
    finds: "J4",
    subject: commitmentCalled("released"),
    alter: commitment("released", ({ endedAt }) => ({ endedAt: Number(endedAt) + 1 })),
  },
  {
    how: "a refusal whose event was removed",
    finds: "R1",
    also: ["J1", "J3", "J4"],
    subject: keyCalled("refused"),
    alter: async ({ key: read }) => {
      const { id } = await read("refused");
      return { event: (row) => (row.keyId === id ? undefined : row) };
    },
  },
  {
    how: "a refusal of an unknown id whose event was removed",
    finds: "R2",
    also: ["J3"],
    subject: keyCalled("refused-unknown"),
    alter: async ({ key: read }) => {
      const { id } = await read("refused-unknown");
      return { event: (row) => (row.keyId === id ? undefined : row) };
    },
  },
  {
    how: "a refusal with another text",
    finds: "R1",
    subject: keyCalled("refused"),
    alter: key("refused", ({ answer }) => ({ answer: { ...answer, detail: "sold out" } })),
  },
  {
    how: "a refusal whose digest was changed with its parameters",
    finds: "R4",
    subject: keyCalled("refused"),
    alter: key("refused", ({ action, parameters }) => {
      const changed = { ...parameters, requester: "eve" };
      return { parameters: changed, digest: digestParameters(action, changed) };
    }),
  },
  {
    how: "an event without a key",
    finds: "J5",
    also: ["J1", "J3", "J4", "R2"],
    subject: commitmentCalled("released"),
    alter: event("released", "released", () => ({ keyId: undefined })),
  },
  {
    how: "a commitment without events",
    finds: "J5",
    also: ["C4", "J1", "J3", "R1"],
    subject: commitmentCalled("held"),
    alter: ({ ids }) => ({ event: (row) => (row.subject === `commitment:${ids.held}` ? undefined : row) }),
  },
];

function shifted({ recordedAt, windowEndsAt, keptUntil }: KeyRecord, ms: number): object {
  return { recordedAt: recordedAt + ms, windowEndsAt: windowEndsAt + ms, keptUntil: keptUntil + ms };
}

describe("the audit finds", () => {
  test("a violation of every invariant: each invariant has at least one case here", () => {
    const found = new Set(BREAKS.map(({ finds }) => finds));
    // J6 needs an anchor, and has its own tests below.
    expect(INVARIANT_IDS.filter((id) => !found.has(id))).toEqual(["J6"]);
  });

  test.each(BREAKS)("$finds: $how", async ({ finds, also = [], subject, alter }) => {
    const scene = await openAuditScene();
    const data = await scene.audit(await alter(scene));
    expect(data.ok).toBe(false);
    expect(broken(data).sort()).toEqual([finds, ...also].sort());
    const named = await subject(scene);
    expect(listOffenders(data, finds).map((text) => text.startsWith(`${named}: `))).toContain(true);
  });

  /** The newest events of a bed, its only commitment, its keys and its checkpoints are gone, and its row is rewritten. */
  async function withoutExpiredBed(scene: AuditScene, { isRowRewritten }: { isRowRewritten: boolean }) {
    const subject = `commitment:${scene.ids.expired}`;
    const gone = await scene.events(subject);
    return {
      commitment: (row) => (row.id === scene.ids.expired ? undefined : row),
      event: (row) => (row.subject === subject ? undefined : row),
      key: (row) => (gone.some(({ keyId }) => keyId === row.id) ? undefined : row),
      checkpoint: (row) => (gone.some(({ checkpoint }) => checkpoint === row.id) ? undefined : row),
      resource: (row) => (row.name === "bed" && isRowRewritten ? undefined : row),
    } satisfies Alterations;
  }

  test("a commitment that was removed with its events, keys and checkpoints, by the chain of its resource", async () => {
    const scene = await openAuditScene();
    const data = await scene.audit(await withoutExpiredBed(scene, { isRowRewritten: false }));
    expect(broken(data)).toEqual(["J5"]);
    expect(listOffenders(data, "J5")).toEqual(["resource:bed: it has no events"]);
  });

  test("that the whole chain of a resource was removed with its row, only by an anchor or the earlier counts", async () => {
    const scene = await openAuditScene();
    const [{ counts }, anchor] = [await scene.desk.audit(), await scene.desk.anchor()];
    const erased = await withoutExpiredBed(scene, { isRowRewritten: true });
    expect(broken(await scene.audit(erased))).toEqual([]);
    expect(broken(await scene.audit(erased, { previous: counts }))).toEqual(["C10", "J1", "J3"]);
    const data = await scene.audit(erased, { anchor });
    expect(broken(data)).toEqual(["J6"]);
    expect(listOffenders(data, "J6")).toEqual([
      "resource:bed: its chain no longer contains the event that was entry 2 when the anchor was taken",
    ]);
    expect(broken(await scene.audit({}, { previous: counts, anchor }))).toEqual([]);
  });

  test("that the newest event of a chain was rewritten with row, key, checkpoint and all hashes, only by an anchor", async () => {
    const scene = await openAuditScene();
    const anchor = await scene.desk.anchor();
    const [, ended] = await scene.events(`commitment:${scene.ids.released}`);
    const { number, resource, at, keyId, previous, checkpoint } = ended as JournalEvent;
    const rewritten = { ...(ended as JournalEvent), at: at + 1 };
    const hash = hashEvent(rewritten);
    const next = (await scene.events("resource:seat-3"))[0] as JournalEvent;
    expect([number, resource, next.previous]).toEqual([2, "seat-3", ended?.hash]);
    const refused = { ...next, previous: hash };
    const head = hashEvent(refused);
    const forgery: Alterations = {
      event: (row) =>
        row.hash === ended?.hash
          ? { ...rewritten, hash }
          : row.hash === next.hash
            ? { ...refused, hash: head }
            : row,
      commitment: (row) =>
        row.id === scene.ids.released ? { ...row, endedAt: at + 1, lastHash: hash } : row,
      resource: (row) => (row.name === "seat-3" ? { ...row, lastHash: head } : row),
      key: (row) => (row.id === keyId ? ({ ...row, ...shifted(row, 1) } as KeyRecord) : row),
      checkpoint: (row) => {
        if (row.id === checkpoint) return { ...row, at: at + 1, digest: digestHashes([hash]) };
        return row.id === next.checkpoint ? { ...row, digest: digestHashes([head]) } : row;
      },
    };
    expect(previous).toHaveLength(64);
    expect(broken(await scene.audit(forgery))).toEqual([]);
    expect(broken(await scene.audit(forgery, { anchor }))).toEqual(["J6"]);
  });

  test("an anchor that was changed, or is of another namespace", async () => {
    const scene = await openAuditScene();
    const anchor = await scene.desk.anchor();
    for (const given of [{ ...anchor, chains: anchor.chains.slice(1) }, { ...anchor, namespace: "x" }, {}])
      await expect(scene.audit({}, { anchor: given as never })).rejects.toMatchObject({
        code: "options-invalid",
        message: expect.stringContaining("anchor"),
      });
  });

  test("no problem with parameters of rejected requests that JSON cannot store", async () => {
    const scene = await openAuditScene();
    const data = await scene.audit({
      key: (row) => ({ ...row, parameters: JSON.parse(JSON.stringify(row.parameters)) }),
    });
    expect(broken(data)).toEqual([]);
  });
});

describe("after an erasure, the audit finds", () => {
  async function erasedScene() {
    const scene = await openAuditScene();
    const before = {
      key: await scene.key("place-seat-2"),
      commitment: await scene.commitment(scene.ids.confirmed),
    };
    expect(await scene.desk.erase({ requester: "ann" })).toEqual({ erased: 4, held: 1, more: false });
    expect(broken(await scene.audit())).toEqual([]);
    return { ...scene, before };
  }

  test("a requester that was put back", async () => {
    const { audit, ids, before } = await erasedScene();
    const { requester, requesterSalt } = before.commitment;
    const data = await audit({
      commitment: (row) => (row.id === ids.confirmed ? { ...row, requester, requesterSalt } : row),
    });
    expect(broken(data)).toEqual(["C5"]);
    expect(listOffenders(data, "C5")).toEqual([
      `commitment:${ids.confirmed}: changed since it was placed: requester`,
    ]);
  });

  test("a request that was put back with its salt", async () => {
    const { audit, before } = await erasedScene();
    const data = await audit({ key: (row) => (row.id === before.key.id ? before.key : row) });
    expect(broken(data)).toEqual(["R4"]);
    expect(listOffenders(data, "R4")).toEqual([
      `key:${before.key.id}: its requester was erased, but its salt is there`,
    ]);
  });

  test("that the event was removed", async () => {
    const { audit, ids } = await erasedScene();
    const subject = `commitment:${ids.confirmed}`;
    const data = await audit({
      event: (row) => (row.subject === subject && row.kind === "erased" ? undefined : row),
    });
    expect(broken(data)).toEqual(expect.arrayContaining(["C5", "J3", "J4", "R4"]));
  });

  test("an event of a hold that has not ended", async () => {
    const scene = await openAuditScene();
    const data = await scene.audit({
      event: (row) => (row.kind === "confirmed" ? { ...row, kind: "erased" } : row),
    });
    expect(broken(data)).toEqual(expect.arrayContaining(["C3", "J2"]));
  });
});
