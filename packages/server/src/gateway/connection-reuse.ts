/**
 * Decides whether a request with a key may use an existing connection. A service may close an idle connection at the
 * moment a request is written to it. Then it is unknown whether the service read the request, so the outcome of its key
 * is unknown although nothing was done. So the service first has to show that it leaves idle connections open:
 *
 *   untried ── a connection is idle ─────▶ on trial ── left open for TRIAL_MS ──▶ trusted
 *      ▲                                     │                                       │
 *      └───── SUSPECT_MS later ── suspect ◀──┴──── the service closed one ───────────┘
 *
 * Until the service is trusted, each request with a key gets a new connection.
 */

export interface ConnectionReuse {
  isTrusted(): boolean;
  /** A response was complete and its connection stays open. */
  noteIdle(): void;
  /** The service closed an idle connection. */
  noteClosed(): void;
}

const TRIAL_MS = 1_000;
const SUSPECT_MS = 60_000;

export function createConnectionReuse(now: () => number = () => performance.now()): ConnectionReuse {
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
