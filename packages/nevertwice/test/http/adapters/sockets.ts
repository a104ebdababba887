/** What the harnesses on node's own requests and responses share. */
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { HttpAttempt } from "../../../src/http/http-attempt.ts";
import type { HandledRequest, ScriptedAnswer } from "../../../src/testing/adapter-cases.ts";

/** Names and their values. A name with several values is sent as several lines. */
export function headersOf({ headers }: ScriptedAnswer): readonly (readonly [string, string | string[]])[] {
  const groups = new Map<string, string[]>();
  for (const [name, value] of headers) groups.set(name, [...(groups.get(name) ?? []), value]);
  return [...groups].map(([name, values]) => [name, values.length === 1 ? (values[0] as string) : values]);
}

export function headerOf({ headers }: ScriptedAnswer, name: string): string | undefined {
  return headers.find(([line]) => line.toLowerCase() === name)?.[1];
}

/** A request whose handler reads the body itself, or finds it parsed. */
export function seenOn(
  request: IncomingMessage & { body?: unknown },
  isParsed: boolean,
  attempt: HttpAttempt | undefined,
): HandledRequest {
  const method = request.method ?? "";
  return isParsed ? { method, parsed: request.body, attempt } : { method, stream: () => request, attempt };
}

export function putHead(res: ServerResponse, answer: ScriptedAnswer): void {
  res.statusCode = answer.status;
  if (answer.reason !== undefined) res.statusMessage = answer.reason;
  for (const [name, values] of headersOf(answer)) res.setHeader(name, values);
}

/** Bodies that are written or streamed, after `putHead`. */
export async function putBody(res: ServerResponse, { body, trailers }: ScriptedAnswer): Promise<void> {
  if (body.kind === "stream") {
    // The client has disconnected, or the source has failed. The destroyed response already shows it.
    await pipeline(Readable.from(body.chunks), res).catch(() => {});
    return;
  }
  if (body.kind !== "written") throw new Error(`${body.kind} is not written`);
  if (body.flush) res.flushHeaders();
  for await (const chunk of body.chunks) {
    if (res.destroyed) return;
    if (!res.write(chunk)) await Promise.race([once(res, "drain"), once(res, "close")]);
  }
  if (trailers !== undefined) res.addTrailers(trailers as [string, string][]);
  res.end();
}

/** Ends a server with its connections. */
export function stopping(server: Server): () => Promise<void> {
  return async () => {
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closed;
  };
}

interface Listener {
  listen(port: number, host: string, listener: () => void): unknown;
}

export async function listening<S extends Listener>(server: S): Promise<S> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}
