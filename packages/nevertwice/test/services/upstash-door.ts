/**
 * A REST door in front of a Redis, as Upstash documents its own (https://upstash.com/docs/redis/features/restapi): a command as
 * a JSON array in the body of a POST, many of them at `/pipeline` and `/multi-exec`, a bearer token, errors as `{ error }`
 * with status 400, replies in base64 on demand, and a token for reading one's own writes.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Redis } from "ioredis";

export interface UpstashDoor {
  readonly url: string;
  readonly token: string;
  /** The commands of all requests, in order, in capitals. */
  readonly commands: string[];
  /** How many HTTP requests were served. */
  readonly requests: number;
  /** Cuts the connection of the next request: before its commands run, after them, or in the middle of the reply. */
  cutNext(where: "request" | "reply" | "body"): void;
  /** Answers the next request with this, and runs nothing. */
  answerNext(status: number, body: string): void;
  stop(): Promise<void>;
}

type Reply = { readonly result: unknown } | { readonly error: string };

interface Answer {
  readonly status: number;
  readonly body: string;
}

const TOKEN = "AYNgAS2553feg6a2d9842h2a0gcdb5f8efe9934DQ=";
/** Upstash does not let clients read or change its settings. */
const UNAVAILABLE = new Set(["CONFIG", "DEBUG", "WAIT"]);

const KEEP_ALIVE_MS = 120_000;
/** Hundreds of calls at once open hundreds of connections, and a busy machine accepts them late. */
const BACKLOG = 4_096;

export async function startUpstashDoor(redisUrl: string): Promise<UpstashDoor> {
  const redis = new Redis(redisUrl);
  redis.on("error", () => {});
  const commands: string[] = [];
  let requests = 0;
  let nextCut: "request" | "reply" | "body" | undefined;
  let nextAnswer: Answer | undefined;

  async function run(command: unknown): Promise<Reply> {
    if (!isCommand(command)) return { error: "ERR Failed to parse command" };
    const [name = "", ...args] = command.map(String);
    commands.push(name.toUpperCase());
    if (UNAVAILABLE.has(name.toUpperCase()))
      return { error: `ERR Command is not available: '${name.toUpperCase()}'` };
    try {
      return { result: await redis.callBuffer(name, ...args) };
    } catch (error) {
      return { error: (error as Error).message };
    }
  }

  /** As in Redis, a command that fails does not stop the others; one that cannot be queued discards all. */
  async function runAtOnce(all: readonly (readonly unknown[])[]): Promise<readonly Reply[] | Reply> {
    const transaction = redis.multi();
    for (const [name, ...args] of all) {
      commands.push(String(name).toUpperCase());
      transaction.callBuffer(String(name), ...args.map(String));
    }
    const replies = await transaction.exec().catch((error: Error) => error);
    if (replies instanceof Error || replies === null) return { error: replies?.message ?? "EXECABORT" };
    return replies.map(([error, result]) => (error === null ? { result } : { error: error.message }));
  }

  async function answer(request: IncomingMessage, body: string): Promise<Answer> {
    if (!["POST", "PUT"].includes(request.method ?? "")) return failure(405, "ERR method is not allowed");
    if (request.headers.authorization !== `Bearer ${TOKEN}`)
      return failure(401, "WRONGPASS invalid or missing auth token");
    const given = parseJson(body);
    const isBase64 = request.headers["upstash-encoding"] === "base64";
    const format = (reply: Reply): Reply =>
      "error" in reply ? reply : { result: toJson(reply.result, isBase64, true) };
    switch (request.url) {
      case "/": {
        const reply = await run(given);
        return { status: "error" in reply ? 400 : 200, body: JSON.stringify(format(reply)) };
      }
      case "/pipeline":
      case "/multi-exec": {
        if (!Array.isArray(given) || !given.every(isCommand))
          return failure(400, "ERR Failed to parse commands");
        const replies = await (request.url === "/pipeline" ? Promise.all(given.map(run)) : runAtOnce(given));
        if ("error" in replies) return failure(400, replies.error);
        return { status: 200, body: JSON.stringify((replies as readonly Reply[]).map(format)) };
      }
      default:
        return failure(400, "ERR this door has no commands in its path");
    }
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    requests++;
    const cut = nextCut;
    nextCut = undefined;
    const planned = nextAnswer;
    nextAnswer = undefined;
    if (cut === "request") return void request.socket.resetAndDestroy();
    const { status, body: reply } = planned ?? (await answer(request, body));
    if (cut === "reply") return void request.socket.resetAndDestroy();
    response.writeHead(status, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(reply),
      "upstash-sync-token": Buffer.from(String(requests)).toString("base64"),
    });
    if (cut === undefined) return void response.end(reply);
    response.write(reply.slice(0, reply.length / 2), () => request.socket.resetAndDestroy());
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => request.socket.destroy());
  });
  // A connection that is closed while it idles may be closed at the moment at which a client uses it again.
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  await once(server.listen({ port: 0, host: "127.0.0.1", backlog: BACKLOG }), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token: TOKEN,
    commands,
    get requests() {
      return requests;
    },
    cutNext(where) {
      nextCut = where;
    },
    answerNext(status, body) {
      nextAnswer = { status, body };
    },
    async stop() {
      redis.disconnect();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function failure(status: number, error: string): Answer {
  return { status, body: JSON.stringify({ error }) };
}

function isCommand(command: unknown): command is readonly (string | number)[] {
  return Array.isArray(command) && command.length > 0 && command.every((part) => typeof part !== "object");
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** Base64 is for all strings, except for an `OK`. Without it, bytes that are no UTF-8 become U+FFFD. */
function toJson(reply: unknown, isBase64: boolean, isWhole = false): unknown {
  if (Array.isArray(reply)) return reply.map((part) => toJson(part, isBase64));
  if (!Buffer.isBuffer(reply)) return reply;
  const isOk = isWhole && reply.toString() === "OK";
  return isBase64 && !isOk ? reply.toString("base64") : reply.toString();
}
