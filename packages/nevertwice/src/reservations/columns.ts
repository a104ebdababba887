/** The columns that the tables of reservations have in common on MySQL and SQLite, in the order in which they are read. */

const CHAIN = ["events", "last_hash"] as const;

export const KEY_DETAILS = [
  "action",
  "digest",
  "parameters",
  "answer",
  "commitment",
  "recorded_at",
  "window_ends_at",
  "kept_until",
] as const;

/** What a commitment is about. These never change, except that the requester may be erased. */
export const COMMITMENT_TERMS = [
  "namespace",
  "id",
  "resource",
  "requester",
  "units",
  "placed_at",
  "expires_at",
] as const;
export const COMMITMENT_DETAILS = [
  "requester_salt",
  "state",
  "ended_at",
  "confirmed_units",
  "occupied",
  ...CHAIN,
] as const;

export const RESOURCE_DETAILS = ["capacity", "taken", "state", "is_declared", ...CHAIN] as const;
