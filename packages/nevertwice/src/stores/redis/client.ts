/**
 * How the Redis store calls its client. It accepts four kinds of client, and this file gives them one small interface. A
 * client is recognised by its members, since the application may have another copy of the package.
 */
import { NevertwiceError } from "../../core/errors.ts";
import type { LuaScript } from "../redis-lua.ts";
import { isNoScript, toStoreError, translateErrors } from "./errors.ts";

type RedisListener = (...args: string[]) => void;

/** The arguments of EVALSHA and EVAL. */
export type Evaluation = [script: string, keyCount: string, ...keysAndArguments: string[]];

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

interface IoredisCluster extends IoredisClient {
  nodes(role: "master"): readonly (IoredisClient & {
    readonly options: { readonly host?: string; readonly port?: number };
  })[];
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
export interface NodeRedisCluster extends NodeRedisEvents {
  readonly masters: readonly { readonly address: string }[];
  // A method, so that its parameter may be the client's own, larger type.
  nodeClient(node: never): unknown;
  sendCommand(key: string | undefined, isReadonly: boolean, args: string[]): Promise<unknown>;
}

export type RedisClient = IoredisClient | NodeRedisClient | NodeRedisCluster;

/** One server, for commands about the server itself. */
export interface RedisNode {
  readonly name: string;
  send(command: string, ...args: string[]): Promise<unknown>;
}

export interface RedisAdapter {
  readonly isCluster: boolean;
  /** The prefix of a key when it is handed to `evaluate`, and the prefix that it then has in Redis. */
  prefixes(prefix: string): { readonly sent: string; readonly stored: string };
  /** Runs a script, by its hash or by its text, on the server that has its keys. */
  evaluate(command: "EVALSHA" | "EVAL", args: Evaluation): Promise<unknown>;
  /** The text of each key, or null. Not on a cluster. */
  readTexts(keys: readonly string[]): Promise<unknown>;
  /** Resolves once the client knows at least one. */
  masters(): Promise<readonly RedisNode[]>;
  /** Listens to the client's events until `stop` is called. */
  listen(): ClientListeners;
  /** For pub/sub. Calls `onMessage` with the channel of each message. */
  channels(onMessage: (channel: string) => void): Channels;
}

export interface Channels {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Calls `onBack` when all channels are subscribed again after a lost connection; messages in between were missed. */
  onReconnect(onBack: () => void, channels: () => readonly string[]): void;
}

export function adaptClient(name: string, client: unknown): RedisAdapter {
  const adapter = recognise(client as Partial<Record<string, unknown>> | null | undefined);
  if (adapter !== undefined) return adapter;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be a Redis or Cluster of ioredis, or a client from createClient or createCluster of node-redis (not a pool or a sentinel client; for Sentinel use ioredis).`,
  );
}

function recognise(client: Partial<Record<string, unknown>> | null | undefined): RedisAdapter | undefined {
  const has = (...members: string[]) => members.every((member) => typeof client?.[member] === "function");
  if (has("evalsha", "eval", "call", "subscribe") && typeof client?.isCluster === "boolean")
    return adaptIoredis(client as unknown as IoredisClient);
  if (has("sendCommand", "nodeClient", "subscribe"))
    return adaptNodeRedisCluster(client as unknown as NodeRedisCluster);
  if (has("sendCommand", "createPool", "subscribe"))
    return adaptNodeRedis(client as unknown as NodeRedisClient);
  return undefined;
}

function adaptIoredis(client: IoredisClient): RedisAdapter {
  const { isCluster } = client;
  const own = client.options.keyPrefix ?? "";
  return {
    isCluster,
    // The client adds its own prefix to keys, but not to channels and patterns.
    prefixes: (prefix) => ({ sent: prefix, stored: own + prefix }),
    evaluate: (command, args) => (command === "EVALSHA" ? client.evalsha(...args) : client.eval(...args)),
    readTexts: (keys) => client.mget(...keys),
    async masters() {
      if (!isCluster) return [{ name: "", send: (command, ...args) => client.call(command, ...args) }];
      // The client answers once it knows its nodes.
      await client.call("PING");
      return (client as IoredisCluster).nodes("master").map((node) => ({
        name: `${node.options.host}:${node.options.port}`,
        send: (command, ...args) => node.call(command, ...args),
      }));
    },
    // A cluster client replaces a node whose connection was lost.
    listen: () => listenToClient(client as RedisEmitter, isCluster ? ["close", "+node", "-node"] : ["close"]),
    channels(onMessage) {
      client.on("message", onMessage);
      return {
        subscribe: (channel) => client.subscribe(channel),
        unsubscribe: (channel) => client.unsubscribe(channel),
        onReconnect(onBack, channels) {
          // The client emits `ready` before it has subscribed again, so the store subscribes once more and waits.
          client.on("ready", () => {
            if (channels().length > 0) client.subscribe(...channels()).then(onBack, () => {});
          });
        },
      };
    },
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
    prefixes: readPrefix(given),
    evaluate: (command, args) => client.sendCommand([command, ...args]),
    readTexts: (keys) => client.sendCommand(["MGET", ...keys]),
    masters: async () => [{ name: "", send: (...args) => client.sendCommand(args) }],
    listen: () => listenToClient(given as RedisEmitter, ["reconnecting"]),
    channels: (onMessage) => nodeRedisChannels(given, "ready", onMessage),
  };
}

function adaptNodeRedisCluster(given: NodeRedisCluster): RedisAdapter {
  const client = untyped(given);
  return {
    isCluster: true,
    prefixes: readPrefix(given),
    evaluate: (command, args) => client.sendCommand(args[2], false, [command, ...args]),
    readTexts: (keys) => client.sendCommand(keys[0], false, ["MGET", ...keys]),
    masters: async () =>
      client.masters.map((master) => ({
        name: master.address,
        async send(...args) {
          const node = (await client.nodeClient(master as never)) as NodeRedisClient;
          return untyped(node).sendCommand(args);
        },
      })),
    listen: () => listenToClient(given as RedisEmitter, ["node-reconnecting", "node-disconnect"]),
    channels: (onMessage) => nodeRedisChannels(given, "node-ready", onMessage),
  };
}

function nodeRedisChannels(
  client: NodeRedisEvents,
  readyEvent: string,
  onMessage: (channel: string) => void,
): Channels {
  const listener: NodeRedisListener = (_message, channel) => onMessage(String(channel));
  return {
    subscribe: (channel) => client.subscribe(channel, listener),
    unsubscribe: (channel) => client.unsubscribe(channel, listener),
    // node-redis emits this after it has subscribed again.
    onReconnect: (onBack) => void client.on(readyEvent, onBack),
  };
}

/** The event members that every kind of client has. */
interface RedisEmitter {
  on(event: string, listener: () => void): unknown;
  off?(event: string, listener: () => void): unknown;
}

export interface ClientListeners {
  /** How often a connection of this client has been lost or replaced. */
  losses(): number;
  stop(): void;
}

interface SharedListeners {
  losses: number;
  users: number;
  readonly remove: () => void;
}

/** One set of listeners for each client, however many stores share it. The last store to close removes them. */
const sharedListeners = new WeakMap<object, SharedListeners>();

/**
 * Counts the events `lost`, which report a lost connection, and ignores `error` events: the calls that fail report the error
 * themselves. Without a listener, node-redis would end the process when Redis restarts, and ioredis would print the error.
 */
function listenToClient(client: RedisEmitter, lost: readonly string[]): ClientListeners {
  const shared = sharedListeners.get(client) ?? addListeners(client, lost);
  sharedListeners.set(client, shared);
  shared.users++;
  let isStopped = false;
  return {
    losses: () => shared.losses,
    stop() {
      if (isStopped) return;
      isStopped = true;
      if (--shared.users > 0) return;
      sharedListeners.delete(client);
      shared.remove();
    },
  };
}

function addListeners(client: RedisEmitter, lost: readonly string[]): SharedListeners {
  const onError = () => {};
  const onLost = () => {
    shared.losses++;
  };
  const shared: SharedListeners = {
    losses: 0,
    users: 0,
    remove() {
      client.off?.("error", onError);
      for (const event of lost) client.off?.(event, onLost);
    },
  };
  client.on("error", onError);
  for (const event of lost) client.on(event, onLost);
  return shared;
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
