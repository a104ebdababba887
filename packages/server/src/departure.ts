/**
 * How a server leaves a load balancer without failing a request:
 *
 *   told to stop ──▶ `/readyz` answers 503, everything else goes on
 *        │ drainDelay
 *        ▼
 *   leaving ───────▶ no new connection; each answer says `Connection: close`; idle connections stay open
 *        │ the last connection has ended, or `drain` is over
 *        ▼
 *   closed
 *
 * A client may send a request on an idle connection at the moment in which it is closed, and would not learn whether the request
 * was read. So an idle connection is closed by its client: after the answer to its next request, or after the client's own idle
 * timeout. Without a delay nobody was told to go away, and idle connections are cut at once.
 */
import type { Server } from "node:http";
import { setTimeout } from "node:timers/promises";

export interface Departure {
  /** `/readyz` answers 503. */
  readonly isAnnounced: boolean;
  /** Each answer is the last one on its connection. */
  readonly isLeaving: boolean;
  /** Whether idle connections are left to their clients. */
  readonly sparesIdle: boolean;
  /** Resolves when the server has to leave. */
  announce(): Promise<void>;
}

export function createDeparture(delayMs: number): Departure {
  const departure = {
    isAnnounced: false,
    isLeaving: false,
    sparesIdle: delayMs > 0,
    async announce() {
      departure.isAnnounced = true;
      if (delayMs > 0) await setTimeout(delayMs);
      departure.isLeaving = true;
    },
  };
  return departure;
}

/** Node cuts the idle connections of a server that is closed. Afterwards it leaves those of this one open. */
export function spareIdleConnections(server: Server): void {
  server.closeIdleConnections = () => {};
}
