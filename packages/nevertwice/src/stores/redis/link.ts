/**
 * The four kinds of client that a store takes, each typed by what is needed of it, behind one small interface. A client
 * is known by its members, since an application may have another copy of the package than ours.
 */
import { NevertwiceError } from "../../core/errors.ts";

type Listener = (...args: string[]) => void;

/** The arguments of EVALSHA and EVAL. */
export type Evaluation = [script: string, keyCount: string, ...keysAndArguments: string[]];

/** `Redis` or `Cluster` of ioredis 5 and later; iovalkey has the same members. */
export interface IoredisClient {
  readonly isCluster: boolean;
  readonly options: { readonly keyPrefix?: string | undefined };
  call(command: string, ...args: string[]): Promise<unknown>;
  evalsha(...args: Evaluation): Promise<unknown>;
  eval(...args: Evaluation): Promise<unknown>;
  subscribe(...channels: string[]): Promise<unknown>;
  unsubscribe(...channels: string[]): Promise<unknown>;
  on(event: string, listener: Listener): unknown;
}

interface IoredisCluster extends IoredisClient {
  nodes(role: "master"): readonly (IoredisClient & {
    readonly options: { readonly host?: string; readonly port?: number };
  })[];
}

type NodeRedisListener = (message: unknown, channel: unknown) => void;

interface NodeRedisEvents {
  subscribe(channel: string, listener: NodeRedisListener): Promise<unknown>;
  unsubscribe(channel: string, listener: NodeRedisListener): Promise<unknown>;
  on(event: string, listener: Listener): unknown;
}

/** What `createClient` of node-redis 5 and later makes. */
export interface NodeRedisClient extends NodeRedisEvents {
  createPool(): unknown;
  sendCommand(args: readonly string[]): Promise<unknown>;
}

/** What `createCluster` of node-redis 5 and later makes. */
export interface NodeRedisCluster extends NodeRedisEvents {
  readonly masters: readonly { readonly address: string }[];
  // A method, so that the node it takes may be the client's own, larger type.
  nodeClient(node: never): unknown;
  sendCommand(key: string | undefined, isReadonly: boolean, args: string[]): Promise<unknown>;
}

export type RedisClient = IoredisClient | NodeRedisClient | NodeRedisCluster;

/** A server that one may talk to about itself. */
export interface RedisNode {
  readonly name: string;
  send(command: string, ...args: string[]): Promise<unknown>;
}

export interface RedisLink {
  readonly isCluster: boolean;
  /** What a key begins with as it is handed to `evaluate`, and as it then is in Redis. */
  prefixes(prefix: string): { readonly sent: string; readonly kept: string };
  /** Runs a script, by its hash or by its text, on the server that has its keys. */
  evaluate(command: "EVALSHA" | "EVAL", args: Evaluation): Promise<unknown>;
  /** Resolves once there are any. */
  masters(): Promise<readonly RedisNode[]>;
  /** Calls `lost` whenever the connection is gone. */
  onLost(lost: () => void): void;
  /** Where channels are subscribed to. `heard` is called for each message. */
  channels(heard: (channel: string) => void): Channels;
}

export interface Channels {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Calls `back` when all channels are subscribed to again after a loss; messages between were not heard. */
  onBack(back: () => void, channels: () => readonly string[]): void;
}

export function linkTo(name: string, client: unknown): RedisLink {
  const link = recognised(client as Partial<Record<string, unknown>> | null | undefined);
  if (link !== undefined) return link;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be a Redis or Cluster of ioredis, or what createClient or createCluster of node-redis makes (no pool, no sentinel client: for Sentinel use ioredis).`,
  );
}

function recognised(client: Partial<Record<string, unknown>> | null | undefined): RedisLink | undefined {
  const has = (...members: string[]) => members.every((member) => typeof client?.[member] === "function");
  if (has("evalsha", "eval", "call", "subscribe") && typeof client?.isCluster === "boolean")
    return linkToIoredis(client as unknown as IoredisClient);
  if (has("sendCommand", "nodeClient", "subscribe"))
    return linkToNodeRedisCluster(client as unknown as NodeRedisCluster);
  if (has("sendCommand", "createPool", "subscribe"))
    return linkToNodeRedis(client as unknown as NodeRedisClient);
  return undefined;
}

function linkToIoredis(client: IoredisClient): RedisLink {
  const { isCluster } = client;
  const own = client.options.keyPrefix ?? "";
  return {
    isCluster,
    // The client puts its own prefix before keys, and not before channels and patterns.
    prefixes: (prefix) => ({ sent: prefix, kept: own + prefix }),
    evaluate: (command, args) => (command === "EVALSHA" ? client.evalsha(...args) : client.eval(...args)),
    async masters() {
      if (!isCluster) return [{ name: "", send: (command, ...args) => client.call(command, ...args) }];
      // The first answer comes once the client knows its nodes.
      await client.call("PING");
      return (client as IoredisCluster).nodes("master").map((node) => ({
        name: `${node.options.host}:${node.options.port}`,
        send: (command, ...args) => node.call(command, ...args),
      }));
    },
    onLost: (lost) => void client.on("close", lost),
    channels(heard) {
      client.on("message", heard);
      return {
        subscribe: (channel) => client.subscribe(channel),
        unsubscribe: (channel) => client.unsubscribe(channel),
        onBack(back, channels) {
          // It says that it is ready before it has subscribed again, so we ask once more and wait for the answer.
          client.on("ready", () => {
            if (channels().length > 0) client.subscribe(...channels()).then(back, () => {});
          });
        },
      };
    },
  };
}

interface Prefixed {
  /** The client's own prefix; node-redis does not put it into commands that are sent as they are. */
  readonly _keyPrefix?: unknown;
}

function prefixedByUs(client: object): RedisLink["prefixes"] {
  return (prefix) => {
    const kept = `${(client as Prefixed)._keyPrefix ?? ""}${prefix}`;
    return { sent: kept, kept };
  };
}

/** The same client with replies as we expect them, whatever types it was told to make of them. */
function untyped<Client>(client: Client): Client {
  const typed = client as Client & { withTypeMapping?: (mapping: object) => Client };
  return typed.withTypeMapping?.({}) ?? client;
}

function linkToNodeRedis(given: NodeRedisClient): RedisLink {
  const client = untyped(given);
  return {
    isCluster: false,
    prefixes: prefixedByUs(given),
    evaluate: (command, args) => client.sendCommand([command, ...args]),
    masters: async () => [{ name: "", send: (...args) => client.sendCommand(args) }],
    onLost: (lost) => void given.on("reconnecting", lost),
    channels: (heard) => nodeRedisChannels(given, "ready", heard),
  };
}

function linkToNodeRedisCluster(given: NodeRedisCluster): RedisLink {
  const client = untyped(given);
  return {
    isCluster: true,
    prefixes: prefixedByUs(given),
    evaluate: (command, args) => client.sendCommand(args[2], false, [command, ...args]),
    masters: async () =>
      client.masters.map((master) => ({
        name: master.address,
        async send(...args) {
          const node = (await client.nodeClient(master as never)) as NodeRedisClient;
          return untyped(node).sendCommand(args);
        },
      })),
    onLost: (lost) => void given.on("node-reconnecting", lost),
    channels: (heard) => nodeRedisChannels(given, "node-ready", heard),
  };
}

function nodeRedisChannels(
  client: NodeRedisEvents,
  ready: string,
  heard: (channel: string) => void,
): Channels {
  const listener: NodeRedisListener = (_message, channel) => heard(String(channel));
  return {
    subscribe: (channel) => client.subscribe(channel, listener),
    unsubscribe: (channel) => client.unsubscribe(channel, listener),
    // It is ready once it has subscribed again.
    onBack: (back) => void client.on(ready, back),
  };
}
