/** Finds the master of a key among the connections of a cluster client, and runs scripts on it. */
import { listenToClient, type RedisEmitter } from "./client-listeners.ts";
import type { WritingConnection } from "./evaluation.ts";
import { keySlot } from "./key-slot.ts";

/** The masters of a cluster, as far as the client knows them. */
export interface ClusterNodes extends ClusterScripts {
  /** The master with this address. */
  at(address: string): object | undefined;
  /** The connection of this master that all its scripts use. */
  connect(node: object): Promise<WritingConnection>;
}

/** What groups need. */
export interface ClusterScripts {
  /** The master of the slot of this key, which is given as it is in Redis. */
  find(key: string): object | undefined;
  /** Runs a script that declares no keys on this master, whatever keys it uses. */
  evaluate(node: object, command: "EVALSHA" | "EVAL", args: readonly string[]): Promise<unknown>;
}

export interface IoredisServer extends RedisEmitter {
  readonly status: string;
  readonly options: {
    readonly host?: string;
    readonly port?: number;
    readonly readOnly?: boolean;
    readonly keyPrefix?: string | undefined;
  };
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** The members of ioredis' `Cluster` that know its servers. */
export interface IoredisMasters {
  /** For each slot the addresses of its master and of its replicas. */
  readonly slots: readonly (readonly string[] | undefined)[];
  nodes(role: "master" | "slave"): readonly IoredisServer[];
}

export function serverAddress({ options }: IoredisServer): string {
  return `${options.host}:${options.port}`;
}

/** `prefix` is the one that the client of the cluster puts in front of keys. */
export function ioredisNodes(client: IoredisMasters, prefix: string): ClusterNodes {
  let masters = new Map<string, IoredisServer>();
  const connections = new WeakMap<object, WritingConnection>();

  function masterAt(address: string): IoredisServer | undefined {
    const known = masters.get(address);
    // The client replaces a connection that has ended, and uses one for another role after a failover.
    if (known !== undefined && known.status !== "end" && !known.options.readOnly) return known;
    masters = new Map(client.nodes("master").map((master) => [serverAddress(master), master]));
    return masters.get(address);
  }

  function toConnection(server: IoredisServer): WritingConnection {
    return {
      evaluate(command, [script, count, ...keysAndArguments]) {
        // The client of the cluster adds its prefix to keys. A connection adds only one of its own.
        const [key] = keysAndArguments;
        if (count === "1" && !server.options.keyPrefix) keysAndArguments[0] = `${prefix}${key}`;
        return server.call(command, script, count, ...keysAndArguments);
      },
      send: (command, ...args) => server.call(command, ...args),
      losses: listenToClient(server, ["close"]).losses,
    };
  }

  return {
    find(key) {
      const address = client.slots[keySlot(key)]?.[0];
      return address === undefined ? undefined : masterAt(address);
    },
    at: masterAt,
    evaluate: (node, command, args) => (node as IoredisServer).call(command, ...args),
    connect: async (node) => remembered(connections, node as IoredisServer, toConnection),
  };
}

/** One object for each server, since what it has lost is counted from the first call on. */
function remembered<Server extends object>(
  connections: WeakMap<object, WritingConnection>,
  server: Server,
  toConnection: (server: Server) => WritingConnection,
): WritingConnection {
  const connection = connections.get(server) ?? toConnection(server);
  connections.set(server, connection);
  return connection;
}

interface NodeRedisConnection extends RedisEmitter {
  sendCommand(args: readonly string[]): Promise<unknown>;
}

/** The members of node-redis' cluster client that know its servers. */
export interface NodeRedisMasters {
  readonly masters: readonly { readonly address: string }[];
  readonly replicas: readonly { readonly address: string }[];
  readonly slots: readonly { readonly master: object }[];
  // A method, so that its parameter may be the client's own, larger type.
  nodeClient(node: never): unknown;
}

/** `untyped` returns a connection with its default reply types. */
export function nodeRedisNodes(
  client: NodeRedisMasters,
  untyped: (connection: NodeRedisConnection) => NodeRedisConnection,
): ClusterNodes {
  const connections = new WeakMap<object, WritingConnection>();
  const connectTo = async (master: object) =>
    (await client.nodeClient(master as never)) as NodeRedisConnection;

  function toConnection(node: NodeRedisConnection): WritingConnection {
    return {
      evaluate: (command, args) => untyped(node).sendCommand([command, ...args]),
      send: (...command) => untyped(node).sendCommand(command),
      losses: listenToClient(node, ["reconnecting", "end"]).losses,
    };
  }

  return {
    find: (key) => client.slots[keySlot(key)]?.master,
    at: (address) => client.masters.find((master) => master.address === address),
    async evaluate(master, command, args) {
      return untyped(await connectTo(master)).sendCommand([command, ...args]);
    },
    connect: async (master) => remembered(connections, await connectTo(master), toConnection),
  };
}
