/** A real server that answers by a script, one step a request, and remembers what it was sent; and a time that flies. */
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished } from "vitest";
import type { Timer } from "../../src/core/clock.ts";

/** `reset`: no answer. `hang`: none either, and the connection stays. `break`: an answer that ends in mid-body. */
export type Step =
  | "reset"
  | "hang"
  | "break"
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    };

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly key: string | undefined;
  readonly body: Buffer;
}

export interface ScriptedServer {
  readonly url: string;
  readonly received: readonly Received[];
  readonly keys: readonly (string | undefined)[];
  /** Connections that are open now. */
  connections(): Promise<number>;
}

/** The last step of the script is repeated. */
export async function startServer(...script: readonly Step[]): Promise<ScriptedServer> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("error", () => {});
    request.on("end", () => {
      const { method = "", url: path = "", headers } = request;
      const key = headers["idempotency-key"] as string | undefined;
      const step = script[Math.min(received.length, script.length - 1)] as Step;
      received.push({ method, path, headers, key, body: Buffer.concat(chunks) });
      if (step === "hang") return;
      if (step === "reset") {
        request.socket.destroy();
        return;
      }
      if (step === "break") {
        response.writeHead(201, { "content-length": "100" });
        response.write("half of it", () => request.socket.destroy());
        return;
      }
      response.writeHead(step.status, step.headers).end(step.body);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => stop(server));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    get keys() {
      return received.map(({ key }) => key);
    },
    connections: () => new Promise((resolve) => server.getConnections((_, count) => resolve(count))),
  };
}

function stop(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}

/**
 * Time in which pauses pass at once and are written down, while nothing that bounds a try runs out: it does not move
 * while a request is on its way.
 */
export function flyingTime(): {
  /** For `createFetch`. */
  readonly ports: { readonly timer: Timer; readonly fetch: typeof globalThis.fetch };
  readonly pauses: readonly number[];
} {
  const pauses: number[] = [];
  let now = 0;
  let sending = 0;
  const timer: Timer = {
    now: () => now,
    after(ms, action) {
      let isLive = true;
      setImmediate(() => {
        if (!isLive || sending > 0) return;
        now += ms;
        pauses.push(ms);
        action();
      });
      return () => {
        isLive = false;
      };
    },
  };
  const counted: typeof globalThis.fetch = async (input, init) => {
    sending++;
    try {
      return await fetch(input, init);
    } finally {
      sending--;
    }
  };
  return { ports: { timer, fetch: counted }, pauses };
}

/** As long as a busy machine may need. */
export function eventually<T>(look: () => T) {
  return expect.poll(look, { interval: 5 });
}

export const CREATED: Step = { status: 201, body: "created" };

export function problem(status: number, members: object, headers: Record<string, string> = {}): Step {
  return {
    status,
    headers: { "content-type": "application/problem+json", ...headers },
    body: JSON.stringify(members),
  };
}
