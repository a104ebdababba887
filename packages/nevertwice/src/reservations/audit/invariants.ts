/** What the auditor verifies: each invariant with its number and name, and how far stored records can show it. */

export const MODULES = {
  C: "Provisional Commitment",
  D: "Duplicate Prevention",
  R: "Idempotent Reservation",
  P: "Resource registry",
  J: "Journal",
} as const;

export type Module = keyof typeof MODULES;

interface Described {
  readonly name: string;
  /** What the records show, and what they cannot. */
  readonly shows: string;
}

export const INVARIANTS = {
  C1: {
    name: "Membership exclusivity",
    shows: "Each row is in one of four states, and has the instant and the units of that state and no other.",
  },
  C2: {
    name: "Hold-then-Held persistence",
    shows:
      "A chain begins with placed, and a row is held until an event says how it ended. That it was held in between is shown by there being no other event.",
  },
  C3: {
    name: "Terminal absorption",
    shows:
      "A chain has one end at most; nothing follows it but giving back what was confirmed, and the row has kept it.",
  },
  C4: {
    name: "Id stability",
    shows:
      "A row and its chain carry one id. An id that was changed everywhere at once shows only at the checkpoint.",
  },
  C5: {
    name: "Resource and requester immutability",
    shows: "Resource, requester, units and both instants of a row are those of its placed event.",
  },
  C6: { name: "Hold window monotonicity", shows: "placedAt is before expiresAt." },
  C7: {
    name: "Confirmation within the window",
    shows: "What is confirmed was confirmed before expiresAt, by the row and by the event.",
  },
  C8: {
    name: "Transition timestamps after placement",
    shows: "No end is before its placement, and no expiry before expiresAt. Times are the store's own clock.",
  },
  C9: {
    name: "No id reuse",
    shows:
      "Ids are unique, and each chain has one placed event, its first. Ids that were never written leave no trace.",
  },
  C10: {
    name: "Commitment store durability",
    shows:
      "Every chain has its row, and there are no fewer rows than in the report given as previous. A commitment that was removed with its chain, keys and checkpoints shows only there.",
  },
  D1: {
    name: "Window monotonicity",
    shows:
      "Nothing was recorded later than now, and each window ends after it began. Keys that were purged are not seen.",
  },
  D2: {
    name: "Single-recording",
    shows:
      "A key's window is as long as one in force, and began at the instant of its action: no retry has moved it. For a rejection only the length shows it.",
  },
  D3: {
    name: "Idempotency of check",
    shows:
      "A look leaves no row: each row has an action, a digest and a decided answer. What a look answered is not stored.",
  },
  D4: {
    name: "Eventual expiry",
    shows:
      "Each window, and each kept answer, has an end. Rows past it may wait for a purge; they no longer answer.",
  },
  R1: {
    name: "Idempotent place_hold within the window",
    shows:
      "An answer with an id has its placed event under that key, a rejection has none. A kept reason that was swapped for another one of the same action does not show.",
  },
  R2: {
    name: "Idempotent state transitions within the window",
    shows: "The same for confirm, release, expire, giveBack and what governs resources.",
  },
  R3: {
    name: "Token-to-commitment one-to-one within the window",
    shows:
      "No two commitments were placed under one key within a window, and a key names the one it acted on.",
  },
  R4: {
    name: "Token-action binding",
    shows:
      "The digest is that of the kept action and parameters, and the event did just that. Parameters of requests that were refused as invalid or not known are kept as JSON can, so their digest is not recomputed.",
  },
  R5: {
    name: "Provisional Commitment's invariants preserved",
    shows: "A kept rejection is one that its action can get. Rests on C1 to C10.",
  },
  R6: {
    name: "Duplicate Prevention's invariants preserved",
    shows: "Each key is recorded under the hash of its own namespace, scope and text. Rests on D1 to D4.",
  },
  R7: {
    name: "Token expiry releases the binding",
    shows:
      "No answer is kept for less than its window, and no key is gone whose window, the shortest one in force, is not over. What was purged after it leaves no trace but its event.",
  },
  R8: {
    name: "Exactly-once effect within the window",
    shows: "No key has two events within the shortest window in force, whether or not its row is still kept.",
  },
  P1: { name: "Taken within capacity", shows: "0 ≤ taken ≤ capacity, now. The past is in the events." },
  P2: { name: "Taken is what is occupied", shows: "taken is the sum of what the commitments occupy." },
  P3: {
    name: "Occupied by state",
    shows:
      "A hold occupies its units, a confirmed one what was confirmed less what was given back, others none.",
  },
  P4: { name: "Closed for good", shows: "Nothing follows closed, and nothing was placed after its instant." },
  P5: {
    name: "Declared as recorded",
    shows: "Capacity and state are those of the last event; what nobody declared is one unit and open.",
  },
  J1: {
    name: "Chains without a gap",
    shows: "Numbers from 1 without a gap, each event after the hash before it.",
  },
  J2: { name: "Hashes true", shows: "Each event's hash is that of its content." },
  J3: {
    name: "Checkpoints complete",
    shows:
      "Each checkpoint has all of its events and no other, and each event its checkpoint. Whoever rewrites rows, events and checkpoint together is found only by a copy of the report or of the checkpoints kept elsewhere.",
  },
  J4: {
    name: "Rows agree with their last event",
    shows: "A row has its chain's length and last hash, and its end is the event's.",
  },
  J5: {
    name: "Every transition has its event and its key",
    shows: "Each row has events, and each event names a key; only what expired by itself has none.",
  },
} as const satisfies Readonly<Record<string, Described>>;

export type InvariantId = keyof typeof INVARIANTS;

export const INVARIANT_IDS = Object.keys(INVARIANTS) as InvariantId[];

/** Which invariants hold only if others do. */
export const RESTS_ON: Readonly<Partial<Record<InvariantId, Module>>> = { R5: "C", R6: "D" };

export function moduleOf(id: InvariantId): Module {
  return id.charAt(0) as Module;
}
