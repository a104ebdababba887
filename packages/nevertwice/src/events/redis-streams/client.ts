/** The supported kinds of Redis client, each typed by the members that are used, behind one interface. */
import { NevertwiceError } from "../../core/errors.ts";

/** `Redis` or `Cluster` of ioredis 5 and later; iovalkey has the same members. */
interface IoredisStreamClient {
  readonly isCluster: boolean;
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** What `createClient` of node-redis 5 and later returns. */
interface NodeRedisStreamClient {
  createPool(): unknown;
  sendCommand(args: readonly string[]): Promise<unknown>;
}

/** What `createCluster` of node-redis 5 and later returns. */
interface NodeRedisStreamCluster {
  // A method rather than a property, so that its parameter may be the client's own, larger type.
  nodeClient(node: never): unknown;
  sendCommand(key: string | undefined, isReadonly: boolean, args: string[]): Promise<unknown>;
}

/** A client of ioredis, or a client or cluster of node-redis. */
export type StreamClient = IoredisStreamClient | NodeRedisStreamClient | NodeRedisStreamCluster;

export interface StreamConnection {
  /** The stream's name with the client's key prefix, unless the client adds the prefix itself. */
  keyFor(stream: string): string;
  /** Sends a command to the server that holds `stream`. */
  send(stream: string, ...command: [string, ...string[]]): Promise<unknown>;
}

export function toStreamConnection(name: string, given: unknown): StreamConnection {
  const client = given as Partial<Record<string, unknown>> | null | undefined;
  const has = (member: string) => typeof client?.[member] === "function";
  if (has("call") && typeof client?.isCluster === "boolean") {
    const ioredis = client as unknown as IoredisStreamClient;
    return { keyFor: (stream) => stream, send: (_stream, ...command) => ioredis.call(...command) };
  }
  if (has("sendCommand") && has("nodeClient")) {
    const cluster = plain(client as unknown as NodeRedisStreamCluster);
    const nameOf = prefixed(client);
    return {
      keyFor: nameOf,
      send: (stream, ...command) => cluster.sendCommand(nameOf(stream), false, command),
    };
  }
  if (has("sendCommand") && has("createPool")) {
    const nodeRedis = plain(client as unknown as NodeRedisStreamClient);
    return { keyFor: prefixed(client), send: (_stream, ...command) => nodeRedis.sendCommand(command) };
  }
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be a Redis or Cluster of ioredis, or what createClient or createCluster of node-redis returns.`,
  );
}

/** node-redis does not add its key prefix to raw commands. */
function prefixed(client: unknown): (stream: string) => string {
  return (stream) => `${(client as { readonly _keyPrefix?: unknown })._keyPrefix ?? ""}${stream}`;
}

/** The same client with its default reply types, in case the user configured others. */
function plain<Client>(client: Client): Client {
  const typed = client as Client & { withTypeMapping?: (mapping: object) => Client };
  return typed.withTypeMapping?.({}) ?? client;
}
