/**
 * Whether a request that has a key may go over a connection that was used before. A service that closes idle connections
 * may do so at the moment in which a request is written to one; then nobody knows whether it was read, and its key is
 * unknown although nothing was done. So the service has to show first that it leaves idle connections open:
 *
 *   untried ── a connection fell idle ──▶ on trial ── left open for TRIAL_MS ──▶ trusted
 *      ▲                                     │                                       │
 *      └───── SUSPECT_MS later ── suspect ◀──┴──── the service closed one ───────────┘
 *
 * Until it is trusted, each such request has a connection of its own.
 */

export interface Reuse {
  isTrusted(): boolean;
  /** An answer came whole over a connection that stays open. */
  noteIdle(): void;
  /** The service closed a connection that it had left open. */
  noteClosed(): void;
}

const TRIAL_MS = 1_000;
const SUSPECT_MS = 60_000;

export function createReuse(now: () => number = () => performance.now()): Reuse {
  let trialSince: number | undefined;
  let suspectUntil = Number.NEGATIVE_INFINITY;

  return {
    isTrusted: () => trialSince !== undefined && now() - trialSince >= TRIAL_MS,
    noteIdle() {
      if (trialSince === undefined && now() >= suspectUntil) trialSince = now();
    },
    noteClosed() {
      trialSince = undefined;
      suspectUntil = now() + SUSPECT_MS;
    },
  };
}
