/**
 * The service behind the gateway, on node:http. It keeps the bytes of every connection and reads them a second time with
 * the strict reader: both must find the same requests.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { type Lines, type ReadRequest, readRequests, valuesOf } from "./reading.ts";

export interface Recorder {
  readonly port: number;
  /** The requests since the last call. */
  take(): Taken;
  close(): void;
}

export interface Taken {
  readonly requests: readonly ReadRequest[];
  /** Bytes that no gateway should send, and requests that the two readers read differently. */
  readonly problems: readonly string[];
}

interface Connection {
  /** The bytes that the strict reader has not read yet. */
  bytes: string;
  isOpen: boolean;
  /** True after bytes that cannot be read: nothing after them can be understood. */
  isLost: boolean;
  /** The heads that node read from the same bytes, in order. */
  readonly heads: string[];
}

export async function startRecorder(): Promise<Recorder> {
  const connections = new Map<Socket, Connection>();
  const problems: string[] = [];
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: 60_000, maxHeaderSize: 131_072 });
  server.maxHeadersCount = 0;
  server.on("connection", (socket) => {
    const connection: Connection = { bytes: "", isOpen: true, isLost: false, heads: [] };
    connections.set(socket, connection);
    socket.on("data", (chunk: Buffer) => {
      connection.bytes += chunk.toString("latin1");
    });
    socket.on("close", () => {
      connection.isOpen = false;
    });
    socket.on("error", () => {});
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    // The gateway may close a connection within a request.
    if (error.code?.startsWith("HPE_") && error.code !== "HPE_INVALID_EOF_STATE")
      problems.push(`the service cannot read it: ${error.code} in ${shown(connections.get(socket)?.bytes)}`);
    socket.destroy();
  });
  server.on("request", (req, res) => {
    connections.get(req.socket)?.heads.push(headText(req.method ?? "", req.url ?? "", linesOf(req)));
    answer(req, res);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    take() {
      const requests: ReadRequest[] = [];
      for (const [socket, connection] of connections) {
        requests.push(...strictly(connection, problems));
        if (!connection.isOpen) connections.delete(socket);
      }
      return { requests, problems: problems.splice(0) };
    },
    close: () => void server.close().closeAllConnections(),
  };
}

/** Long enough for an answer to the next request on the connection, if the gateway does not keep the order. */
const SLOW_MS = 200;

/** Answers with the id of the case: half of the cases before their body was read, and slow ones after a pause. */
function answer(req: IncomingMessage, res: ServerResponse): void {
  const id = caseOf(linesOf(req), req.url ?? "");
  const send = () => res.writeHead(200, { "X-Answer": id, "Content-Type": "text/plain" }).end(id);
  if (id.endsWith("slow")) setTimeout(send, SLOW_MS);
  else if (id.charCodeAt(id.length - 1) % 2 === 0) send();
  else req.on("end", send);
  req.on("error", () => {}).resume();
}

/** The requests of a connection that are complete, or that can no longer become complete. */
function strictly(connection: Connection, problems: string[]): readonly ReadRequest[] {
  if (connection.isLost) return [];
  const { messages, unfinished, malformed, offset } = readRequests(connection.bytes);
  connection.isLost = malformed !== undefined;
  if (connection.isLost) problems.push(`it is malformed: ${malformed} in ${shown(connection.bytes)}`);
  const isOver = !connection.isOpen || connection.isLost;
  const requests = isOver && unfinished !== undefined ? [...messages, unfinished] : messages;
  for (const { method, target, headers } of requests) {
    const strict = headText(method, target, headers);
    const nodes = connection.heads.shift();
    // If a connection was closed, node may not have read all of its bytes.
    if (nodes !== strict && !(nodes === undefined && isOver))
      problems.push(`two readings of one request: ${strict} and ${nodes}`);
  }
  connection.bytes = isOver ? "" : connection.bytes.slice(offset);
  return requests;
}

/** The id of the case of a request, from its header or else from its query. */
export function caseOf(headers: Lines, target: string): string {
  return valuesOf(headers, "x-case")[0] ?? /[?&]case=([\w.]+)/.exec(target)?.[1] ?? `none ${target}`;
}

function linesOf({ rawHeaders }: IncomingMessage): Lines {
  return rawHeaders.flatMap((name, index) =>
    index % 2 === 0 ? [[name, rawHeaders[index + 1] ?? ""] as const] : [],
  );
}

function headText(method: string, target: string, headers: Lines): string {
  return JSON.stringify([method, target, headers]);
}

function shown(bytes = ""): string {
  return JSON.stringify(bytes.slice(0, 600));
}
