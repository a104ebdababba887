/** What a store promises, by name. Every case proves one of these. */
export const GUARANTEES = [
  "one-owner",
  "conflict-wins",
  "own-claim-recognised",
  "lease-ends",
  "fence-grows",
  "stale-token-refused",
  "complete-is-final",
  "complete-twice-is-once",
  "abandon-frees",
  "retention-ends",
  "expired-is-absent",
  "identities-apart",
  "bytes-exact",
  "purge-spares-the-living",
  "waiters-wake",
  "takeover-is-single",
  "steps-stay-done",
  "lists-find-records",
  "history-kept",
] as const;

/** The name of a guarantee. */
export type Guarantee = (typeof GUARANTEES)[number];
