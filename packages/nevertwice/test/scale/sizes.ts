/** The size of each trial: small in every test run, full in a campaign. */

/** Set to `full` by `npm run campaign -- stores`. */
export const IS_FULL = process.env.NEVERTWICE_SCALE === "full";

/** For the trials of effects: at full size all of them run at the same time, for most of an hour on two idle cores. */
export const EFFECTS_TIMEOUT_MS = IS_FULL ? 4 * 3_600_000 : 300_000;

/** How long the campaign `endurance` takes in all. */
const MINUTES = Number(process.env.NEVERTWICE_MINUTES ?? 60);
/** One store after another. */
export const FAULTS_S = MINUTES * 60;
const ENDURANCE_S = (MINUTES * 60) / 3;
/**
 * Records expire and are purged several times in each quarter, so that their number is steady from the second one on. Redis
 * removes a record a minute after its retention, so there it is steady only in a trial of 20 minutes or more.
 */
const ENDURANCE_RETENTION_MS = Math.min(60_000, (ENDURANCE_S * 1_000) / 20);

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
  "lost-leader": {
    share: { processes: 3, lanes: 4, seconds: 4, everyMs: 2_000, faultMs: 1_200, leastSteps: 1 },
    full: { processes: 8, lanes: 24, seconds: 300, everyMs: 10_000, faultMs: 5_000, leastSteps: 100_000 },
  },
  /** Databases of several nodes. In the share each has few faults; starting its nodes takes most of the time. */
  fleet: {
    share: {
      ...{ processes: 2, lanes: 3, pauseMs: 20 },
      ...{ patroniFaults: 1, sentinelFaults: 1, clusterFaults: 1, galeraFaults: 1 },
    },
    full: {
      ...{ processes: 8, lanes: 6, pauseMs: 50 },
      ...{ patroniFaults: 50, sentinelFaults: 50, clusterFaults: 50, galeraFaults: 50 },
    },
  },
  /** How many rounds of each kind of fault; at full size as many as the campaign has time for. */
  faults: {
    share: { rounds: 1, processes: 2, keysPerRound: 6, callsPerRound: 1_000, roundMs: 700 },
    full: { rounds: 1_000_000, processes: 4, keysPerRound: 16, callsPerRound: 6_400, roundMs: 1_800 },
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
  "purge-cost": {
    // Too short to compare anything: the share only shows that records are purged while claims are answered.
    share: { expired: 20_000, windows: 2, windowMs: 100, claimsPerSecond: 300, claimsEach: 5 },
    full: { expired: 1_000_000, windows: 10, windowMs: 3_000, claimsPerSecond: 1_000, claimsEach: 200 },
  },
  /** `redisKeys` fit in memory. */
  operator: {
    share: { keys: 30_000, redisKeys: 10_000, callers: 10, lanes: 16, windows: 3, windowMs: 300, worst: 20 },
    full: {
      keys: 10_000_000,
      redisKeys: 300_000,
      callers: 10,
      lanes: 16,
      windows: 10,
      windowMs: 2_000,
      worst: 3,
    },
  },
  growth: {
    // A store that reads all of its keys would take twenty times as long for twenty times as many keys.
    share: { few: 10_000, many: 200_000, windows: 6, worst: 10 },
    full: { few: 10_000, many: 10_000_000, windows: 20, worst: 1.5 },
  },
  lists: {
    // A busy machine is slow at any moment. Only the full size compares closely.
    share: { few: 10_000, many: 100_000, windows: 10, worst: 10 },
    full: { few: 10_000, many: 10_000_000, windows: 100, worst: 1.5 },
  },
  /** Every page of a list, while keys are claimed between the pages. */
  "list-walk": {
    share: { keys: 10_000, page: 1_000 },
    full: { keys: 1_000_000, page: 1_000 },
  },
  /** Claims in windows of so many at once, with the indexes of lists and without them. */
  "list-indexes": {
    share: { records: 10_000, windows: 6, claims: 128, least: 0.1 },
    full: { records: 1_000_000, windows: 60, claims: 1_000, least: 0.9 },
  },
  dashboard: {
    share: { records: 20_000 },
    full: { records: 1_000_000 },
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
  /** The keys that each other library makes before they are imported. */
  import: {
    share: { keys: 600 },
    full: { keys: 100_000 },
  },
  "calls-alone": {
    share: { calls: 20, warmUp: 2 },
    full: { calls: 500, warmUp: 100 },
  },
  "cluster-costs": {
    share: { calls: 3_000, rounds: 3 },
    full: { calls: 20_000, rounds: 10 },
  },
  fairness: {
    share: { callers: 3_000, calls: 20 },
    full: { callers: 3_000, calls: 500 },
  },
  "settling-crowd": {
    // A busy machine may not answer all of them while their callers wait.
    share: { keys: 1_000, rounds: 1, mostUnrecorded: 1_000 },
    full: { keys: 10_000, rounds: 5, mostUnrecorded: 0 },
  },
  "far-stores": {
    // A busy machine is slower than the distance.
    share: { forMs: 3_000, leastPerSecond: 100 },
    full: { forMs: 30_000, leastPerSecond: 3_500 },
  },
  endurance: {
    // Nothing expires in the share, so that every acknowledged outcome is read back.
    share: {
      seconds: 3,
      processes: 2,
      perSecond: 100,
      duplicates: 0.3,
      retentionMs: 60_000,
      purgeEveryMs: 500,
    },
    full: {
      seconds: ENDURANCE_S,
      processes: 4,
      perSecond: 240,
      duplicates: 0.1,
      retentionMs: ENDURANCE_RETENTION_MS,
      purgeEveryMs: ENDURANCE_RETENTION_MS,
    },
  },
  "endurance-slots": {
    share: { slots: 50 },
    // Few if the trial is short: the move should end in its half of a quarter.
    full: { slots: Math.min(1_000, Math.ceil(ENDURANCE_S)) },
  },
  /** Servers behind nginx, each of which is stopped and started again in every round. `pauseMs` is longer than nginx's `fail_timeout`. */
  "fleet-servers": {
    share: { servers: 2, rounds: 1, clients: 6, drainDelayMs: 300, pauseMs: 500 },
    full: { servers: 5, rounds: 3, clients: 16, drainDelayMs: 1_000, pauseMs: 500 },
  },
  /** Two regions. In each round every kind of cut separates each of them from the other one, and each owner is moved. */
  "fleet-regions": {
    share: { rounds: 1, clients: 3, faultMs: 300, timeoutMs: 1_000 },
    full: { rounds: 6, clients: 12, faultMs: 1_000, timeoutMs: 2_000 },
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
