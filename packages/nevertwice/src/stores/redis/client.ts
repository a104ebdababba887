/**
 * How the Redis store calls its client. It accepts four kinds of client, and this file gives them one small interface. A
 * client is recognised by its members, since the application may have another copy of the package.
 */
import { NevertwiceError } from "../../core/errors.ts";
import type { LuaScript } from "../redis-lua.ts";
import { type ClientListeners, listenToClient, type RedisEmitter } from "./client-listeners.ts";
import {
  type ClusterNodes,
  type IoredisMasters,
  type IoredisServer,
  ioredisNodes,
  type NodeRedisMasters,
  nodeRedisNodes,
  serverAddress,
} from "./cluster-nodes.ts";
import { isNoScript, toStoreError, translateErrors } from "./errors.ts";
import type { Evaluate, Evaluation } from "./evaluation.ts";
import {
  type Channels,
  type IoredisShards,
  ioredisShards,
  type NodeRedisShards,
  nodeRedisShards,
  shardedOrPlain,
} from "./sharded-channels.ts";

type RedisListener = (...args: string[]) => void;

/** `Redis` or `Cluster` of ioredis 5 and later; iovalkey has the same members. */
export interface IoredisClient {
  readonly isCluster: boolean;
  readonly options: { readonly keyPrefix?: string | undefined };
  call(command: string, ...args: string[]): Promise<unknown>;
  evalsha(...args: Evaluation): Promise<unknown>;
  eval(...args: Evaluation): Promise<unknown>;
  mget(...keys: string[]): Promise<unknown>;
  subscribe(...channels: string[]): Promise<unknown>;
  unsubscribe(...channels: string[]): Promise<unknown>;
  on(event: string, listener: RedisListener): unknown;
  off?(event: string, listener: RedisListener): unknown;
}

interface IoredisCluster extends IoredisClient, IoredisMasters, IoredisShards {
  /** Versions that know the option `shardedSubscribers` have this member if it is set. */
  readonly shardedSubscribers?: object | undefined;
  refreshSlotsCache(callback: (error?: Error | null) => void): void;
}

type NodeRedisListener = (message: unknown, channel: unknown) => void;

interface NodeRedisEvents {
  subscribe(channel: string, listener: NodeRedisListener): Promise<unknown>;
  unsubscribe(channel: string, listener: NodeRedisListener): Promise<unknown>;
  on(event: string, listener: RedisListener): unknown;
  off?(event: string, listener: RedisListener): unknown;
}

/** A client from `createClient` of node-redis 5 and later. */
export interface NodeRedisClient extends NodeRedisEvents {
  createPool(): unknown;
  sendCommand(args: readonly string[]): Promise<unknown>;
}

/** A client from `createCluster` of node-redis 5 and later. */
export interface NodeRedisCluster
  extends NodeRedisEvents,
    NodeRedisMasters,
    NodeRedisShards<NodeRedisListener> {
  sendCommand(key: string | undefined, isReadonly: boolean, args: string[]): Promise<unknown>;
}

/** A client from `createSentinel` of node-redis 5 and later. */
export interface NodeRedisSentinel extends NodeRedisEvents {
  getMasterNode(): unknown;
  sendCommand(isReadonly: boolean, args: string[]): Promise<unknown>;
}

/** A client or cluster of ioredis or of node-redis. */
export type RedisClient = IoredisClient | NodeRedisClient | NodeRedisCluster | NodeRedisSentinel;

/** One server, for commands about the server itself. */
export interface RedisNode {
  /** Its address in a cluster, else empty. */
  readonly name: string;
  readonly isReplica?: boolean;
  send(command: string, ...args: string[]): Promise<unknown>;
}

export interface RedisAdapter {
  readonly isCluster: boolean;
  /** The client is that of node-redis for Sentinel. */
  readonly mayRepeat?: boolean;
  /** Undefined if the client is not that of a cluster. */
  readonly nodes?: ClusterNodes | undefined;
  /** The prefix of a key when it is handed to `evaluate`, and the prefix that it then has in Redis. */
  prefixes(prefix: string): { readonly sent: string; readonly stored: string };
  /** On the server that has its keys. */
  readonly evaluate: Evaluate;
  /** The text of each key, or null. Not on a cluster. */
  readTexts(keys: readonly string[]): Promise<unknown>;
  /** Resolves once the client knows at least one. */
  masters(): Promise<readonly RedisNode[]>;
  /** Those that the client of a cluster knows: node-redis only with `useReplicas`. */
  replicas?(): readonly RedisNode[];
  /** Another value once the client of a cluster has learned its servers anew, if it does not emit an event then. */
  topology?(): unknown;
  /** Listens to the client's events until `stop` is called. */
  listen(): ClientListeners;
  /** Whether its channels are sharded where the servers of a cluster can. */
  readonly isSharded: boolean;
  /** For pub/sub. Calls `onMessage` with the channel of each message. */
  channels(onMessage: (channel: string) => void): Channels;
}

export function adaptClient(name: string, client: unknown): RedisAdapter {
  const adapter = recognise(client as Partial<Record<string, unknown>> | null | undefined);
  if (adapter !== undefined) return adapter;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be a Redis or Cluster of ioredis, or a client from createClient or createCluster of node-redis (or createSentinel; not a pool).`,
  );
}

function recognise(client: Partial<Record<string, unknown>> | null | undefined): RedisAdapter | undefined {
  const has = (...members: string[]) => members.every((member) => typeof client?.[member] === "function");
  if (has("evalsha", "eval", "call", "subscribe") && typeof client?.isCluster === "boolean")
    return adaptIoredis(client as unknown as IoredisClient);
  if (has("sendCommand", "nodeClient", "subscribe"))
    return adaptNodeRedisCluster(client as unknown as NodeRedisCluster);
  if (has("sendCommand", "getMasterNode", "subscribe"))
    return adaptNodeRedisSentinel(client as unknown as NodeRedisSentinel);
  if (has("sendCommand", "createPool", "subscribe"))
    return adaptNodeRedis(client as unknown as NodeRedisClient);
  return undefined;
}

function adaptIoredis(client: IoredisClient): RedisAdapter {
  const { isCluster } = client;
  const own = client.options.keyPrefix ?? "";
  // The client adds its own prefix to sharded channels as to keys.
  const isSharded = isCluster && own === "" && (client as IoredisCluster).shardedSubscribers !== undefined;
  return {
    isCluster,
    isSharded,
    nodes: isCluster ? ioredisNodes(client as IoredisCluster, own) : undefined,
    // The client adds its own prefix to keys, but not to channels and patterns.
    prefixes: (prefix) => ({ sent: prefix, stored: own + prefix }),
    evaluate: (command, args) => (command === "EVALSHA" ? client.evalsha(...args) : client.eval(...args)),
    readTexts: (keys) => client.mget(...keys),
    async masters() {
      if (!isCluster) return [{ name: "", send: (command, ...args) => client.call(command, ...args) }];
      return (await everyMaster(client as IoredisCluster)).map((node) => toRedisNode(node));
    },
    replicas: () =>
      isCluster ? (client as IoredisCluster).nodes("slave").map((node) => toRedisNode(node, true)) : [],
    // A cluster client replaces a node whose connection was lost.
    listen: () =>
      isCluster
        ? listenToClient(client as RedisEmitter, ["close", "+node", "-node"], () =>
            (client as IoredisCluster).nodes("master").map(serverAddress).sort().join(),
          )
        : listenToClient(client as RedisEmitter, ["close"]),
    channels(onMessage) {
      client.on("message", onMessage);
      const plain: Channels = {
        subscribe: (channel) => client.subscribe(channel),
        unsubscribe: (channel) => client.unsubscribe(channel),
        onReconnect(onBack, channels) {
          // The client emits `ready` before it has subscribed again, so the store subscribes once more and waits.
          client.on("ready", () => {
            if (channels().length > 0) client.subscribe(...channels()).then(onBack, () => {});
          });
        },
      };
      return isSharded ? shardedOrPlain(ioredisShards(client as IoredisCluster, onMessage), plain) : plain;
    },
  };
}

/**
 * Every master that has slots. The client drops a node whose connection was lost, until a command for one of its keys finds
 * it again. A list that left it out would say that its records do not exist. The client learns of a new replica only when it
 * asks for the slots again.
 */
async function everyMaster(client: IoredisCluster): Promise<readonly IoredisServer[]> {
  // Every command waits until the client knows its nodes.
  const slots = (await client.call("CLUSTER", "SLOTS")) as readonly (readonly unknown[])[];
  const count = new Set(slots.map(([, , master]) => String(master))).size;
  const replicas = new Set(slots.flatMap(([, , , ...others]) => others.map(String))).size;
  if (client.nodes("master").length < count || client.nodes("slave").length < replicas)
    await new Promise<void>((resolve, reject) => {
      client.refreshSlotsCache((error) => (error ? reject(error) : resolve()));
    });
  const masters = client.nodes("master");
  if (masters.length >= count) return masters;
  throw new NevertwiceError(
    "unavailable",
    `the client knows ${masters.length} of the ${count} masters of the cluster.`,
  );
}

function toRedisNode(node: IoredisServer, isReplica = false): RedisNode {
  return {
    name: serverAddress(node),
    isReplica,
    send: (command, ...args) => node.call(command, ...args),
  };
}

interface Prefixed {
  /** The client's own prefix. node-redis does not add it to commands from `sendCommand`. */
  readonly _keyPrefix?: unknown;
}

function readPrefix(client: object): RedisAdapter["prefixes"] {
  return (prefix) => {
    const stored = `${(client as Prefixed)._keyPrefix ?? ""}${prefix}`;
    return { sent: stored, stored };
  };
}

/** The same client with its default reply types, whatever type mapping the application has configured. */
function untyped<Client>(client: Client): Client {
  const typed = client as Client & { withTypeMapping?: (mapping: object) => Client };
  return typed.withTypeMapping?.({}) ?? client;
}

function adaptNodeRedis(given: NodeRedisClient): RedisAdapter {
  const client = untyped(given);
  return {
    isCluster: false,
    isSharded: false,
    prefixes: readPrefix(given),
    evaluate: (command, args) => client.sendCommand([command, ...args]),
    readTexts: (keys) => client.sendCommand(["MGET", ...keys]),
    masters: async () => [{ name: "", send: (...args) => client.sendCommand(args) }],
    listen: () => listenToClient(given as RedisEmitter, ["reconnecting"]),
    channels: (onMessage) => nodeRedisChannels(given, "ready", toListener(onMessage)),
  };
}

/** The client repeats a command on the new master, so that WAIT may count on another connection than that of the step. */
function adaptNodeRedisSentinel(given: NodeRedisSentinel): RedisAdapter {
  const client = untyped(given);
  const send = (...args: string[]) => client.sendCommand(false, args);
  return {
    isCluster: false,
    isSharded: false,
    mayRepeat: true,
    prefixes: readPrefix(given),
    evaluate: (command, args) => send(command, ...args),
    readTexts: (keys) => send("MGET", ...keys),
    masters: async () => [{ name: "", send }],
    listen: () => listenToClient(given as RedisEmitter, ["reconnecting", "topology-change", "client-error"]),
    channels: (onMessage) => nodeRedisChannels(given, "ready", toListener(onMessage)),
  };
}

function adaptNodeRedisCluster(given: NodeRedisCluster): RedisAdapter {
  const client = untyped(given);
  const toNode = (server: { readonly address: string }, isReplica: boolean): RedisNode => ({
    name: server.address,
    isReplica,
    async send(...args) {
      const node = (await client.nodeClient(server as never)) as NodeRedisClient;
      return untyped(node).sendCommand(args);
    },
  });
  return {
    isCluster: true,
    isSharded: true,
    nodes: nodeRedisNodes(client, untyped),
    prefixes: readPrefix(given),
    evaluate: (command, args) => client.sendCommand(args[2], false, [command, ...args]),
    readTexts: (keys) => client.sendCommand(keys[0], false, ["MGET", ...keys]),
    masters: async () => client.masters.map((master) => toNode(master, false)),
    replicas: () => client.replicas.map((replica) => toNode(replica, true)),
    // The client makes a new list when it asks for the slots again.
    topology: () => client.masters,
    listen: () => listenToClient(given as RedisEmitter, ["node-reconnecting", "node-disconnect"]),
    channels(onMessage) {
      const listener = toListener(onMessage);
      return shardedOrPlain(
        nodeRedisShards(given, listener),
        nodeRedisChannels(given, "node-ready", listener),
      );
    },
  };
}

function toListener(onMessage: (channel: string) => void): NodeRedisListener {
  return (_message, channel) => onMessage(String(channel));
}

function nodeRedisChannels(
  client: NodeRedisEvents,
  readyEvent: string,
  listener: NodeRedisListener,
): Channels {
  return {
    subscribe: (channel) => client.subscribe(channel, listener),
    unsubscribe: (channel) => client.unsubscribe(channel, listener),
    // node-redis emits this after it has subscribed again.
    onReconnect: (onBack) => void client.on(readyEvent, onBack),
  };
}

/** Runs a script by its hash, or by its text if the server does not have it yet. */
export async function runScript(
  evaluate: RedisAdapter["evaluate"],
  script: LuaScript,
  args: Evaluation,
): Promise<unknown> {
  try {
    return await evaluate("EVALSHA", args);
  } catch (error) {
    if (!isNoScript(error)) throw toStoreError(error);
  }
  const [, keyCount, ...rest] = args;
  return translateErrors(evaluate("EVAL", [script.text, keyCount, ...rest]));
}
