/** Every invariant broken once on purpose: the audit finds it under its number, and elsewhere only where that follows. */
import { describe, expect, test } from "vitest";
import { INVARIANT_IDS, type InvariantId } from "../../src/reservations/audit/invariants.ts";
import type { JournalEvent, KeptCommitment, KeptResource, KeyRecord } from "../../src/reservations/index.ts";
import { appendTo, hashOf } from "../../src/reservations/journal.ts";
import {
  type Alterations,
  type AuditScene,
  broken,
  NAMESPACE,
  offendersOf,
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
const commitmentOf = (which: keyof Ids) => (scene: AuditScene) => `commitment:${scene.ids[which]}`;
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

/** Changes one event, and makes its hash true again. */
function event(which: keyof Ids, kind: string, change: (row: JournalEvent) => object) {
  return ({ ids }: AuditScene): Alterations => ({
    event: (row) => {
      if (row.subject !== `commitment:${ids[which]}` || row.kind !== kind) return row;
      const changed = { ...row, ...change(row) };
      return { ...changed, hash: hashOf(changed) };
    },
  });
}

/** A further event at the end of a chain, as good as it can be made: hashed, counted in the row, and in no checkpoint. */
async function oneMore(
  { ids, commitment: read, events }: AuditScene,
  which: keyof Ids,
  happening: Pick<JournalEvent, "kind" | "keyId"> & { readonly detail: object },
): Promise<Alterations> {
  const id = ids[which];
  const subject = `commitment:${id}`;
  const row = await read(id);
  const last = (await events(subject)).at(-1) as JournalEvent;
  const more = appendTo(row, { namespace: NAMESPACE, subject, at: last.at, ...happening }, last.checkpoint);
  return {
    moreEvents: [more],
    commitment: (found) => (found.id === id ? { ...found, events: more.number, lastHash: more.hash } : found),
  };
}

const BREAKS: readonly Break[] = [
  {
    how: "a hold that has ended as well",
    finds: "C1",
    subject: commitmentOf("held"),
    alter: commitment("held", ({ placedAt }) => ({ endedAt: placedAt })),
  },
  {
    how: "a state that is none",
    finds: "C1",
    also: ["C2", "P2"],
    subject: commitmentOf("held"),
    alter: commitment("held", ({ placedAt }) => ({ state: "pending", endedAt: placedAt, occupied: 0 })),
  },
  {
    how: "a hold that somebody released past the journal",
    finds: "C2",
    also: ["P2"],
    subject: commitmentOf("held"),
    alter: commitment("held", ({ placedAt }) => ({ state: "released", endedAt: placedAt, occupied: 0 })),
  },
  {
    how: "a released hold that is held again",
    finds: "C3",
    also: ["P2"],
    subject: commitmentOf("released"),
    alter: commitment("released", () => ({ state: "held", endedAt: undefined, occupied: 1 })),
  },
  {
    how: "a confirmed hold with a second end",
    finds: "C3",
    also: ["J3"],
    subject: commitmentOf("confirmed"),
    alter: (scene) => oneMore(scene, "confirmed", { kind: "expired", keyId: undefined, detail: {} }),
  },
  {
    how: "a row that got another id",
    finds: "C4",
    also: ["C10", "J5"],
    subject: () => "commitment:another",
    alter: commitment("held", () => ({ id: "another" })),
  },
  {
    how: "another requester",
    finds: "C5",
    subject: commitmentOf("held"),
    alter: commitment("held", () => ({ requester: "eve" })),
  },
  {
    how: "a longer window",
    finds: "C5",
    subject: commitmentOf("held"),
    alter: commitment("held", ({ expiresAt }) => ({ expiresAt: expiresAt + 1 })),
  },
  {
    how: "a window that ends as it begins",
    finds: "C6",
    also: ["C5"],
    subject: commitmentOf("held"),
    alter: commitment("held", ({ placedAt }) => ({ expiresAt: placedAt })),
  },
  {
    how: "a confirmation at the very end of the window",
    finds: "C7",
    also: ["J4"],
    subject: commitmentOf("confirmed"),
    alter: commitment("confirmed", ({ expiresAt }) => ({ endedAt: expiresAt })),
  },
  {
    how: "a release before the placement",
    finds: "C8",
    also: ["J4"],
    subject: commitmentOf("released"),
    alter: commitment("released", ({ placedAt }) => ({ endedAt: placedAt - 1 })),
  },
  {
    how: "an expiry before its time",
    finds: "C8",
    also: ["J4"],
    subject: commitmentOf("expired"),
    alter: commitment("expired", ({ expiresAt }) => ({ endedAt: expiresAt - 1 })),
  },
  {
    how: "two rows of one id",
    finds: "C9",
    also: ["P2"],
    subject: commitmentOf("held"),
    alter: async ({ commitment: read, ids }) => ({ moreCommitments: [await read(ids.held)] }),
  },
  {
    how: "an id that was placed twice",
    finds: "C9",
    also: ["J3", "R7"],
    subject: commitmentOf("held"),
    alter: async (scene) =>
      oneMore(scene, "held", { kind: "placed", keyId: "f".repeat(64), detail: { resource: "seat-1" } }),
  },
  {
    how: "a commitment that was deleted",
    finds: "C10",
    also: ["P2"],
    subject: commitmentOf("held"),
    alter: ({ ids }) => ({ commitment: (row) => (row.id === ids.held ? undefined : row) }),
  },
  {
    how: "a key from the future",
    finds: "D1",
    subject: keyCalled("refused"),
    alter: key("refused", (row) => shifted(row, WINDOW_MS)),
  },
  {
    how: "a window that a retry has extended",
    finds: "D2",
    subject: keyCalled("place-seat-1"),
    alter: key("place-seat-1", ({ windowEndsAt, keptUntil }) => ({
      windowEndsAt: windowEndsAt + 1,
      keptUntil: keptUntil + 1,
    })),
  },
  {
    how: "a window that a retry has begun anew",
    finds: "D2",
    subject: keyCalled("place-bed"),
    alter: key("place-bed", (row) => shifted(row, 1)),
  },
  {
    how: "a key that was recorded with no answer",
    finds: "D3",
    subject: keyCalled("refused"),
    alter: key("refused", () => ({ answer: undefined })),
  },
  {
    how: "a window without an end",
    finds: "D4",
    also: ["D2"],
    subject: keyCalled("refused"),
    alter: key("refused", () => ({
      windowEndsAt: Number.POSITIVE_INFINITY,
      keptUntil: Number.POSITIVE_INFINITY,
    })),
  },
  {
    how: "an id in the answer that nobody placed under the key",
    finds: "R1",
    also: ["R4"],
    subject: keyCalled("refused"),
    alter: key("refused", () => ({
      answer: { ok: true, id: "nobody" },
      commitment: "nobody",
      digest: "1:0",
    })),
  },
  {
    how: "a rejection of what was placed",
    finds: "R1",
    subject: keyCalled("place-seat-1"),
    alter: key("place-seat-1", () => ({
      answer: { ok: false, reason: "resource-unavailable" },
      commitment: undefined,
    })),
  },
  {
    how: "an ok for what was refused",
    finds: "R2",
    subject: keyCalled("refused-confirm"),
    alter: key("refused-confirm", () => ({ answer: { ok: true } })),
  },
  {
    how: "a refusal of what was confirmed",
    finds: "R2",
    subject: keyCalled("confirm"),
    alter: key("confirm", () => ({ answer: { ok: false, reason: "not-held" } })),
  },
  {
    how: "a key that is bound to another commitment than it placed",
    finds: "R3",
    subject: keyCalled("place-seat-1"),
    alter: key("place-seat-1", (_, ids) => ({ commitment: ids.released })),
  },
  {
    how: "two commitments under one key",
    finds: "R3",
    // The other key has lost its event, the chain its hash, and its checkpoint an event.
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
    how: "an action that was another one",
    finds: "R4",
    subject: keyCalled("release"),
    alter: key("release", () => ({ action: "confirm" })),
  },
  {
    how: "a rejection that its action cannot get",
    finds: "R5",
    subject: keyCalled("refused"),
    alter: key("refused", () => ({ answer: { ok: false, reason: "window-not-elapsed" } })),
  },
  {
    how: "a key that was recorded under another's identity",
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
    how: "an answer that was evicted early",
    finds: "R7",
    subject: keyCalled("place-seat-1"),
    alter: () => ({ key: (row) => (row.key === "place-seat-1" ? undefined : row) }),
  },
  {
    how: "a key that was recorded anew within its window",
    finds: "R7",
    subject: keyCalled("place-bed"),
    alter: key("place-bed", (row) => ({
      ...shifted(row, 1),
      answer: { ok: false, reason: "resource-unavailable" },
      commitment: undefined,
    })),
  },
  {
    how: "one key that gave back twice",
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
    how: "a resource that is oversold",
    finds: "P1",
    also: ["P2"],
    subject: () => "resource:stock",
    alter: resource("stock", { taken: 11 }),
  },
  {
    how: "units that nobody holds",
    finds: "P2",
    subject: () => "resource:stock",
    alter: resource("stock", { taken: 3 }),
  },
  {
    how: "a resource's row that is gone",
    finds: "P2",
    subject: () => "resource:seat-1",
    alter: () => ({ resource: (row) => (row.name === "seat-1" ? undefined : row) }),
  },
  {
    how: "a confirmed one that occupies what was given back",
    finds: "P3",
    also: ["P2"],
    subject: commitmentOf("partial"),
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
    how: "a capacity that no event knows",
    finds: "P5",
    subject: () => "resource:stock",
    alter: resource("stock", { capacity: 11 }),
  },
  {
    how: "an event that was taken out of the middle",
    finds: "J1",
    also: ["C2", "C3", "J3", "J4", "R2"],
    subject: commitmentOf("partial"),
    alter: ({ ids }) => ({
      event: (row) =>
        row.subject === `commitment:${ids.partial}` && row.kind === "confirmed" ? undefined : row,
    }),
  },
  {
    how: "an event that was altered",
    finds: "J2",
    also: ["C5", "R4"],
    subject: commitmentOf("held"),
    alter: ({ ids }) => ({
      event: (row) =>
        row.subject === `commitment:${ids.held}` ? { ...row, detail: row.detail.replace("ann", "eve") } : row,
    }),
  },
  {
    how: "an event that was cut off the end",
    finds: "J4",
    also: ["P3", "J3", "R2"],
    subject: commitmentOf("partial"),
    alter: ({ ids }) => ({
      event: (row) =>
        row.subject === `commitment:${ids.partial}` && row.kind === "given-back" ? undefined : row,
    }),
  },
  {
    how: "a checkpoint that was taken away",
    finds: "J3",
    subject: commitmentOf("held"),
    alter: async ({ events, ids }) => {
      const [placed] = await events(`commitment:${ids.held}`);
      return { checkpoint: (row) => (row.id === placed?.checkpoint ? undefined : row) };
    },
  },
  {
    how: "an end that is another instant than its event",
    finds: "J4",
    subject: commitmentOf("released"),
    alter: commitment("released", ({ endedAt }) => ({ endedAt: Number(endedAt) + 1 })),
  },
  {
    how: "an event that nobody asked for",
    finds: "J5",
    also: ["J3", "J4", "R2"],
    subject: commitmentOf("released"),
    alter: event("released", "released", () => ({ keyId: undefined })),
  },
  {
    how: "a commitment without events",
    finds: "J5",
    also: ["C4", "J3", "R1"],
    subject: commitmentOf("held"),
    alter: ({ ids }) => ({ event: (row) => (row.subject === `commitment:${ids.held}` ? undefined : row) }),
  },
];

function shifted({ recordedAt, windowEndsAt, keptUntil }: KeyRecord, ms: number): object {
  return { recordedAt: recordedAt + ms, windowEndsAt: windowEndsAt + ms, keptUntil: keptUntil + ms };
}

describe("the audit finds", () => {
  test("every invariant broken: none is without a break of its own", () => {
    const found = new Set(BREAKS.map(({ finds }) => finds));
    expect(INVARIANT_IDS.filter((id) => !found.has(id))).toEqual([]);
  });

  test.each(BREAKS)("$finds: $how", async ({ finds, also = [], subject, alter }) => {
    const scene = await openAuditScene();
    const data = await scene.audit(await alter(scene));
    expect(data.ok).toBe(false);
    expect(broken(data).sort()).toEqual([finds, ...also].sort());
    const named = await subject(scene);
    expect(offendersOf(data, finds).map((text) => text.startsWith(`${named}: `))).toContain(true);
  });

  test("a whole commitment taken away with its events, key and checkpoint: only the counts of an earlier report tell", async () => {
    const scene = await openAuditScene();
    const { counts } = await scene.desk.audit();
    const subject = `commitment:${scene.ids.expired}`;
    const gone = await scene.events(subject);
    const erased: Alterations = {
      commitment: (row) => (row.id === scene.ids.expired ? undefined : row),
      event: (row) => (row.subject === subject ? undefined : row),
      key: (row) => (gone.some(({ keyId }) => keyId === row.id) ? undefined : row),
      checkpoint: (row) => (gone.some(({ checkpoint }) => checkpoint === row.id) ? undefined : row),
    };
    expect(broken(await scene.audit(erased))).toEqual([]);
    expect(broken(await scene.audit(erased, { previous: counts }))).toEqual(["C10", "J1", "J3"]);
    expect(broken(await scene.audit({}, { previous: counts }))).toEqual([]);
  });

  test("a chain that was rewritten and hashed anew, row and all, by its checkpoint alone", async () => {
    const scene = await openAuditScene();
    const { ids } = scene;
    const [placed] = await scene.events(`commitment:${ids.held}`);
    const rewritten = {
      ...(placed as JournalEvent),
      detail: placed?.detail.replace('"ann"', '"eve"') as string,
    };
    const hash = hashOf(rewritten);
    const data = await scene.audit({
      event: (row) => (row.hash === placed?.hash ? { ...rewritten, hash } : row),
      commitment: (row) => (row.id === ids.held ? { ...row, requester: "eve", lastHash: hash } : row),
      key: (row) => (row.key === "place-seat-1" ? undefined : row),
    });
    expect(broken(data)).toEqual(["R7", "J3"]);
    expect(offendersOf(data, "J3")).toEqual([
      `checkpoint:${placed?.checkpoint}: its events are not those it was made over`,
    ]);
  });

  test("nothing in parameters that JSON cannot keep, where they were refused", async () => {
    const scene = await openAuditScene();
    const data = await scene.audit({
      key: (row) => ({ ...row, parameters: JSON.parse(JSON.stringify(row.parameters)) }),
    });
    expect(broken(data)).toEqual([]);
  });
});
