/**
 * How a server leaves a load balancer without failing a request:
 *
 *   told to stop ──▶ `/readyz` answers 503, everything else goes on
 *        │ drainDelay, and then no new connection for a moment
 *        ▼
 *   leaving ───────▶ no new connection; each answer says `Connection: close`; idle connections stay open
 *        │ the last connection has ended, or `drain` is over
 *        ▼
 *   closed
 *
 * A client may send a request on an idle connection at the moment in which it is closed, and would not learn whether the request
 * was read. So an idle connection is closed by its client: after the answer to its next request, or after the client's own idle
 * timeout. The same goes for a connection that is opened at the moment in which the address closes, so that moment is a quiet one.
 * Without a delay no balancer had the time to look at `/readyz`, and idle connections are cut at once.
 */
import type { Server } from "node:http";
import { setTimeout } from "node:timers/promises";
import type { FastifyInstance } from "fastify";

export interface Departure {
  /** `/readyz` answers 503. */
  readonly isAnnounced: boolean;
  /** Each answer of the API is the last one on its connection. */
  readonly isLeaving: boolean;
  /** Whether idle connections are left to their clients. */
  readonly sparesIdle: boolean;
  /** Resolves when the drain delay is over. */
  announce(): Promise<void>;
  leave(): void;
}

export function createDeparture(delayMs: number): Departure {
  const departure = {
    isAnnounced: false,
    isLeaving: false,
    sparesIdle: delayMs > 0,
    async announce() {
      departure.isAnnounced = true;
      if (delayMs > 0) await setTimeout(delayMs);
    },
    leave() {
      departure.isLeaving = true;
    },
  };
  return departure;
}

const QUIET_MS = 100;
/** Clients that open connections all the time do not notice `/readyz`. */
const MOST_MS = 5_000;

/** How long a server may take until it leaves. */
export function longestDepartureMs(delayMs: number): number {
  return delayMs > 0 ? delayMs + MOST_MS : 0;
}

/**
 * Prepares a server to be closed without a failed request: resolves when no connection has arrived for `QUIET_MS`, after `MOST_MS` at
 * the latest, and has the server leave its idle connections open.
 */
export async function untilQuiet(server: Server): Promise<void> {
  let arrivals = 0;
  const onConnection = () => void arrivals++;
  server.on("connection", onConnection);
  const until = performance.now() + MOST_MS;
  for (let seen = -1; seen !== arrivals && performance.now() < until; ) {
    seen = arrivals;
    await setTimeout(QUIET_MS);
    // Timers run before the connections that have arrived meanwhile.
    await new Promise((resolve) => void setImmediate(resolve));
  }
  server.off("connection", onConnection);
  server.closeIdleConnections = () => {};
}

/** Waits for running requests, but at most `drainMs`: a client may send its body or read its response slowly. */
export async function closeApp(app: FastifyInstance, departure: Departure, drainMs: number): Promise<void> {
  if (departure.sparesIdle && departure.isAnnounced) await untilQuiet(app.server);
  departure.leave();
  const timer = globalThis.setTimeout(() => app.server.closeAllConnections(), drainMs);
  await app.close();
  clearTimeout(timer);
}
