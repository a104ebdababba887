/** The four kinds of Redis client that a stream is read with, each typed by what is needed of it, as one function. */
import { NevertwiceError } from "../../core/errors.ts";

/** `Redis` or `Cluster` of ioredis 5 and later; iovalkey has the same members. */
interface IoredisClient {
  readonly isCluster: boolean;
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** What `createClient` of node-redis 5 and later makes. */
interface NodeRedisClient {
  createPool(): unknown;
  sendCommand(args: readonly string[]): Promise<unknown>;
}

/** What `createCluster` of node-redis 5 and later makes. */
interface NodeRedisCluster {
  // A method, so that the node it takes may be the client's own, larger type.
  nodeClient(node: never): unknown;
  sendCommand(key: string | undefined, isReadonly: boolean, args: string[]): Promise<unknown>;
}

export type StreamClient = IoredisClient | NodeRedisClient | NodeRedisCluster;

export interface StreamLink {
  /** A stream's name as it is to be sent: one of the clients puts its own prefix before it, the others do not. */
  nameOf(stream: string): string;
  /** Sends a command to the server that has `stream`. */
  send(stream: string, ...command: [string, ...string[]]): Promise<unknown>;
}

export function streamLinkTo(name: string, given: unknown): StreamLink {
  const client = given as Partial<Record<string, unknown>> | null | undefined;
  const has = (member: string) => typeof client?.[member] === "function";
  if (has("call") && typeof client?.isCluster === "boolean") {
    const ioredis = client as unknown as IoredisClient;
    return { nameOf: (stream) => stream, send: (_stream, ...command) => ioredis.call(...command) };
  }
  if (has("sendCommand") && has("nodeClient")) {
    const cluster = plain(client as unknown as NodeRedisCluster);
    const nameOf = prefixed(client);
    return { nameOf, send: (stream, ...command) => cluster.sendCommand(nameOf(stream), false, command) };
  }
  if (has("sendCommand") && has("createPool")) {
    const nodeRedis = plain(client as unknown as NodeRedisClient);
    return { nameOf: prefixed(client), send: (_stream, ...command) => nodeRedis.sendCommand(command) };
  }
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be a Redis or Cluster of ioredis, or what createClient or createCluster of node-redis makes.`,
  );
}

/** node-redis does not put its own prefix into commands that are sent as they are. */
function prefixed(client: unknown): (stream: string) => string {
  return (stream) => `${(client as { readonly _keyPrefix?: unknown })._keyPrefix ?? ""}${stream}`;
}

/** The same client with replies as we expect them, whatever types it was told to make of them. */
function plain<Client>(client: Client): Client {
  const typed = client as Client & { withTypeMapping?: (mapping: object) => Client };
  return typed.withTypeMapping?.({}) ?? client;
}
