/** The size of each trial: small in every test run, full in a campaign. */

/** Set to `full` by `npm run campaign -- stores`. */
export const IS_FULL = process.env.NEVERTWICE_SCALE === "full";

/** For the trials of effects: at full size all of them run at the same time, for most of an hour on two idle cores. */
export const EFFECTS_TIMEOUT_MS = IS_FULL ? 4 * 3_600_000 : 300_000;

const SIZES = {
  "one-owner": {
    share: { processes: 8, claims: 400, leaseMs: 400 },
    full: { processes: 8, claims: 10_000, leaseMs: 1_000 },
  },
  /** For the stores that need several round trips per step. */
  "one-owner-slow": {
    share: { processes: 6, claims: 60, leaseMs: 500 },
    full: { processes: 8, claims: 2_000, leaseMs: 1_000 },
  },
  "clock-steps": {
    share: { keys: 20, workMs: 2_200 },
    full: { keys: 500, workMs: 6_000 },
  },
  waiters: {
    // While other tests run, the small size only shows that no caller waits until its next poll.
    share: { processes: 4, waiters: 2_000, lastWithinMs: 10_000 },
    full: { processes: 4, waiters: 10_000, lastWithinMs: 1_000 },
  },
  purge: {
    // A busy machine slows both claims and purges. Only the full size, on an idle machine, compares them closely.
    share: { expired: 20_000, claimsPerSecond: 500, windowMs: 150, worst: 10 },
    full: { expired: 1_000_000, claimsPerSecond: 5_000, windowMs: 2_000, worst: 1.5 },
  },
  growth: {
    // A store that reads all of its keys would take twenty times as long for twenty times as many keys.
    share: { few: 10_000, many: 200_000, windows: 6, worst: 10 },
    full: { few: 10_000, many: 10_000_000, windows: 20, worst: 1.5 },
  },
  reservations: {
    share: { processes: 4, actions: 10_000, kills: 6 },
    full: { processes: 8, actions: 100_000, kills: 24 },
  },
  deliveries: {
    share: { deliveries: 4_000, processes: 4, prefetch: 256, lanes: 16, workMs: 50, killEveryMs: 1_000 },
    full: { deliveries: 100_000, processes: 4, prefetch: 256, lanes: 16, workMs: 50, killEveryMs: 1_000 },
  },
  /** An unknown message is redelivered until it is decided. Few lanes and a large prefetch prevent it from blocking all others. */
  "deliveries-held": {
    share: { deliveries: 4_000, processes: 4, prefetch: 256, lanes: 6, workMs: 6, killEveryMs: 1_000 },
    full: { deliveries: 100_000, processes: 4, prefetch: 1_000, lanes: 6, workMs: 6, killEveryMs: 1_000 },
  },
  pipeline: {
    share: { rounds: 1, processes: 2, messages: 6 },
    full: { rounds: 20, processes: 3, messages: 12 },
  },
  /** The kills of each subject. */
  effects: {
    share: { kills: 4 },
    full: { kills: 1_000 },
  },
  /** For each driver: so many COMMITs are cut before the server has them, and so many after. */
  "commit-cuts": {
    share: { commits: 40, tooLate: 2 },
    full: { commits: 1_000, tooLate: 60 },
  },
  "postgres-crashes": {
    share: { crashes: 8 },
    full: { crashes: 1_000 },
  },
  outage: {
    share: { seeds: 1, keys: 20, callers: 4 },
    full: { seeds: 5, keys: 100, callers: 8 },
  },
} as const;

type Trial = keyof typeof SIZES;

export function sizeOf<Name extends Trial>(
  trial: Name,
): { [Part in keyof (typeof SIZES)[Name]["share"]]: number } {
  return SIZES[trial][IS_FULL ? "full" : "share"] as never;
}
