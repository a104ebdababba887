/** The invariants that the auditor verifies: their ids, their names, and how far stored records can prove them. */

export const MODULES = {
  C: "Provisional Commitment",
  D: "Duplicate Prevention",
  R: "Idempotent Reservation",
  P: "Resource registry",
  J: "Journal",
  S: "Stored rows",
} as const;

export type InvariantModule = keyof typeof MODULES;

interface InvariantDescription {
  readonly name: string;
  /** What the stored records prove, and what they cannot prove. */
  readonly shows: string;
}

export const INVARIANTS = {
  C1: {
    name: "Membership exclusivity",
    shows:
      "Each row is in one of four states and has exactly the end time and the units that this state requires.",
  },
  C2: {
    name: "Hold-then-Held persistence",
    shows:
      "A chain begins with placed, and a row stays held until an event ends it. The absence of other events proves that it was held in between.",
  },
  C3: {
    name: "Terminal absorption",
    shows:
      "A chain has at most one end, only given-back events follow it, and the row has the state of that end.",
  },
  C4: {
    name: "Id stability",
    shows:
      "A row and its events have the same id. If an id was changed everywhere at once, the chain of the resource proves it.",
  },
  C5: {
    name: "Resource and requester immutability",
    shows:
      "Resource, units, placedAt and expiresAt of a row equal those of its placed event, which has a salted digest of the requester. A requester is missing only if an event says that it was erased.",
  },
  C6: { name: "Hold window monotonicity", shows: "placedAt is before expiresAt." },
  C7: {
    name: "Confirmation within the window",
    shows: "Every confirmation was before expiresAt, both in the row and in the event.",
  },
  C8: {
    name: "Transition timestamps after placement",
    shows:
      "No hold ended before it was placed or expired before expiresAt. All times are of the store's clock.",
  },
  C9: {
    name: "No id reuse",
    shows:
      "Ids are unique, and each chain has exactly one placed event, the first. Ids that were never written leave no trace.",
  },
  C10: {
    name: "Commitment store durability",
    shows:
      "Every commitment with events has its row, and there are at least as many rows as in the report passed as previous.",
  },
  D1: {
    name: "Window monotonicity",
    shows:
      "No key was recorded in the future, and each window ends after it began. Purged keys cannot be checked.",
  },
  D2: {
    name: "Single-recording",
    shows:
      "The window of a key has the length that it was recorded with and began at the time of its action: no retry moved it. For a rejection only the length can be checked.",
  },
  D3: {
    name: "Idempotency of check",
    shows:
      "A check leaves no row: each row has an action, a digest and a decided answer. The results of checks are not stored.",
  },
  D4: {
    name: "Eventual expiry",
    shows:
      "Each window and each stored answer has an end. A row may stay until it is purged, but is no longer used.",
  },
  R1: {
    name: "Idempotent place_hold within the window",
    shows:
      "An answer with an id has a placed event with that key, and a rejection has a refused event with the same reason and text.",
  },
  R2: {
    name: "Idempotent state transitions within the window",
    shows: "The same for confirm, release, expire, giveBack and the actions on resources.",
  },
  R3: {
    name: "Token-to-commitment one-to-one within the window",
    shows:
      "No two commitments were placed with one key within a window, and each key refers to the commitment that it changed.",
  },
  R4: {
    name: "Token-action binding",
    shows:
      "The digest matches the stored action and parameters, the event has a salted digest of it, and carried them out. JSON may not preserve the parameters of requests rejected with invalid-request or not-known, so their digest is not recomputed.",
  },
  R5: {
    name: "Provisional Commitment's invariants preserved",
    shows: "Each stored rejection is possible for its action. Depends on C1 to C10.",
  },
  R6: {
    name: "Duplicate Prevention's invariants preserved",
    shows: "Each key is stored under the hash of its namespace, scope and text. Depends on D1 to D4.",
  },
  R7: {
    name: "Token expiry releases the binding",
    shows:
      "Each answer is kept at least for its window, and no key was removed before its window ended. A key that was purged later leaves only its event.",
  },
  R8: {
    name: "Exactly-once effect within the window",
    shows: "No key has two events within its window, even if its row was purged.",
  },
  P1: {
    name: "Taken within capacity",
    shows: "0 ≤ taken ≤ capacity at the time of the audit. For the past, see the events.",
  },
  P2: { name: "Taken equals occupied", shows: "taken is the sum of the units that the commitments occupy." },
  P3: {
    name: "Occupied by state",
    shows:
      "A held commitment occupies all its units, a confirmed one the confirmed units that were not given back, any other none.",
  },
  P4: { name: "Closed permanently", shows: "No event follows closed, and no hold was placed after it." },
  P5: {
    name: "Declared as recorded",
    shows: "Capacity and state are those of the last event; an undeclared resource has one unit and is open.",
  },
  J1: {
    name: "Chains without a gap",
    shows:
      "The events of each resource, with those of its commitments and all refusals, are one chain without a gap: each contains the hash of the one before it. A refusal that belongs to no resource, such as that of an unknown id, is in no chain.",
  },
  J2: { name: "Hashes match", shows: "The hash of each event matches its content." },
  J3: {
    name: "Checkpoints complete",
    shows:
      "Each checkpoint has all of its events and no others, and each event has its checkpoint. If rows, events and checkpoints were rewritten together, only an anchor detects it.",
  },
  J4: {
    name: "Rows agree with their last event",
    shows:
      "The rows of commitments and resources have the number of their events and the hash of the last one, and the end of a commitment equals that of its event.",
  },
  J5: {
    name: "Every transition has its event and its key",
    shows:
      "Each row has events, and each event has a key, except when a hold expired to make room for another.",
  },
  J6: {
    name: "Unchanged since the anchor",
    shows:
      "Each chain still contains the event that was its last one when the anchor was taken, and so all events before it. Checked only if an anchor is passed.",
  },
  S1: {
    name: "Every row can be read",
    shows:
      "Each cell has a valid type and range. Offenders are listed with table, row and column. A row that cannot be read is not judged by other invariants.",
  },
} as const satisfies Readonly<Record<string, InvariantDescription>>;

/** The name of an invariant: the letter of its module and a number. */
export type InvariantId = keyof typeof INVARIANTS;

export const INVARIANT_IDS = Object.keys(INVARIANTS) as InvariantId[];

/** Invariants that hold only if all invariants of another module hold. */
export const RESTS_ON: Readonly<Partial<Record<InvariantId, InvariantModule>>> = { R5: "C", R6: "D" };

export function moduleFor(id: InvariantId): InvariantModule {
  return id.charAt(0) as InvariantModule;
}
