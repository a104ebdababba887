/** Starts a program in workerd, the runtime of Cloudflare Workers, and sends requests to it. */
import { request } from "node:http";
import type { Readable } from "node:stream";
import { Miniflare } from "miniflare";
import { COMPATIBILITY_DATE } from "../../../../scripts/smoke/edge-hosts.js";
import { REPLAYED } from "../http/replayed-header.ts";

/** Without it, newer Workers let a request wait for a promise of another one. With it, the request hangs. */
export const STRICT = "no_handle_cross_request_promise_resolution";

export interface StartedWorker {
  /** Sends an order: POST with a key and a JSON body. */
  post(path: string, key: string, body?: object): Promise<WorkerAnswer>;
  /** Sends an order over a socket. The returned function resets the connection. */
  postAndLeave(path: string, key: string, body: object): () => void;
  /** Asks the program of the tests a question. */
  ask(
    path: string,
    parameters: Readonly<Record<string, string>>,
    args?: readonly unknown[],
  ): Promise<unknown>;
  /** What the runtime has written to its log since the start. */
  log(): string;
  /** Runs the program's `scheduled` as a cron would, and says how it ended. */
  scheduled(): Promise<unknown>;
  close(): Promise<void>;
}

export interface WorkerAnswer {
  readonly status: number;
  readonly body: unknown;
  readonly replayed: boolean;
}

function orderHeaders(key: string): Record<string, string> {
  return { "Idempotency-Key": `"${key}"`, "Content-Type": "application/json" };
}

export async function startWorker(script: string, flags: readonly string[] = []): Promise<StartedWorker> {
  let log = "";
  const miniflare = new Miniflare({
    modules: true,
    unsafeDirectSockets: [{}],
    script,
    compatibilityDate: COMPATIBILITY_DATE,
    compatibilityFlags: [...flags],
    durableObjects: { RECORDS: "Records" },
    handleRuntimeStdio(stdout: Readable, stderr: Readable) {
      for (const stream of [stdout, stderr])
        stream.on("data", (chunk: unknown) => {
          log += String(chunk);
        });
    },
  });
  await miniflare.ready;
  // Without the proxy in front of the Worker, which does not pass a disconnect on.
  const address = await miniflare.unsafeGetDirectURL();
  return {
    postAndLeave(path, key, body) {
      const sent = request(new URL(path, address), { method: "POST", headers: orderHeaders(key) });
      sent.on("error", () => {});
      sent.end(JSON.stringify(body));
      return () => sent.socket?.resetAndDestroy();
    },
    async post(path, key, body = {}) {
      const response = await miniflare.dispatchFetch(`http://worker${path}`, {
        method: "POST",
        headers: orderHeaders(key),
        body: JSON.stringify(body),
      });
      const text = await response.text();
      return {
        status: response.status,
        body: text.startsWith("{") ? JSON.parse(text) : text,
        replayed: response.headers.get(REPLAYED) === "true",
      };
    },
    async ask(path, parameters, args = []) {
      const url = `http://worker${path}?${new URLSearchParams(parameters)}`;
      const response = await miniflare.dispatchFetch(url, { method: "POST", body: JSON.stringify(args) });
      return response.json();
    },
    log: () => log,
    async scheduled() {
      // The types of miniflare need those of Workers, which contradict Node's.
      const worker = (await miniflare.getWorker()) as unknown as { scheduled(): Promise<unknown> };
      return worker.scheduled();
    },
    close: () => miniflare.dispose(),
  };
}
