/** Correct clients while others stall: one of the API, and one of the gateway from another address. */
import { once } from "node:events";
import { type IncomingMessage, type RequestOptions, request } from "node:http";
import { setTimeout } from "node:timers/promises";
import { IS_FULL } from "../../../nevertwice/test/scale/sizes.ts";

export interface Worked {
  readonly api: Series;
  readonly gateway: Series;
}

export interface Series {
  readonly requests: number;
  readonly p99Ms: number;
  /** Unexpected responses. */
  readonly failures: readonly string[];
}

export interface WorkingClients {
  /** Stops them and returns their results. */
  stop(): Promise<Worked>;
}

const PATIENCE_MS = 30_000;
/** Between two requests of a client. In `npm test`, other tests need the processor, too. */
const PAUSE_MS = IS_FULL ? 0 : 50;
/** A few are enough if all stalled connections are closed at once. */
const LEAST_REQUESTS = 20;
let calls = 0;

export function startWorkingClients(apiUrl: string, gatewayPort: number): WorkingClients {
  let isStopped = false;
  const series = async (send: () => Promise<string>): Promise<Series> => {
    const times: number[] = [];
    const failures: string[] = [];
    while (!isStopped || times.length < LEAST_REQUESTS) {
      const startedAt = performance.now();
      const said = await send().catch((error) => String(error));
      times.push(performance.now() - startedAt);
      if (said !== "as it should") failures.push(said);
      if (PAUSE_MS > 0) await setTimeout(PAUSE_MS);
    }
    times.sort((a, b) => a - b);
    return { requests: times.length, p99Ms: times[Math.floor(times.length * 0.99)] ?? 0, failures };
  };
  const both = Promise.all([series(() => callApi(apiUrl)), series(() => callGateway(gatewayPort))]);
  return {
    async stop() {
      isStopped = true;
      const [api, gateway] = await both;
      return { api, gateway };
    },
  };
}

/** Marks an event: a write, with a body. */
function callApi(apiUrl: string): Promise<string> {
  const { hostname, port } = new URL(apiUrl);
  const body = JSON.stringify({ source: "stalls", id: `event-${++calls}` });
  return call(
    { host: hostname, port, path: "/v1/events", headers: { "Content-Type": "application/json" } },
    body,
    201,
  );
}

/** A new connection for each request: the gateway must also accept new clients. */
function callGateway(port: number): Promise<string> {
  const headers = { Host: "localhost", "Idempotency-Key": `"working-${++calls}"` };
  return call(
    { host: "127.0.0.1", port, path: "/payments/7", headers, localAddress: "127.0.0.2" },
    "{}",
    200,
  );
}

async function call(how: RequestOptions, body: string, wanted: number): Promise<string> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const outgoing = request({ ...how, method: "POST", agent: false, signal }).end(body);
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk;
  return response.statusCode === wanted ? "as it should" : `${response.statusCode} ${text.slice(0, 200)}`;
}
