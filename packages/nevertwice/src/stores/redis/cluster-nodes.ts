/** Finds the master of a key among the connections of a cluster client, and runs scripts on it. */
import { keySlot } from "./key-slot.ts";

/** The masters of a cluster, as far as the client knows them. */
export interface ClusterNodes {
  /** The connection to the master of the slot of this key, which is given as it is in Redis. */
  find(key: string): object | undefined;
  /** Runs a script that declares no keys on this master, whatever keys it uses. */
  evaluate(node: object, command: "EVALSHA" | "EVAL", args: readonly string[]): Promise<unknown>;
}

export interface IoredisServer {
  readonly status: string;
  readonly options: { readonly host?: string; readonly port?: number; readonly readOnly?: boolean };
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

export function ioredisNodes(client: IoredisMasters): ClusterNodes {
  let masters = new Map<string, IoredisServer>();

  function masterAt(address: string): IoredisServer | undefined {
    const known = masters.get(address);
    // The client replaces a connection that has ended, and uses one for another role after a failover.
    if (known !== undefined && known.status !== "end" && !known.options.readOnly) return known;
    masters = new Map(client.nodes("master").map((master) => [serverAddress(master), master]));
    return masters.get(address);
  }

  return {
    find(key) {
      const address = client.slots[keySlot(key)]?.[0];
      return address === undefined ? undefined : masterAt(address);
    },
    evaluate: (node, command, args) => (node as IoredisServer).call(command, ...args),
  };
}

interface NodeRedisConnection {
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
  return {
    find: (key) => client.slots[keySlot(key)]?.master,
    async evaluate(master, command, args) {
      const node = (await client.nodeClient(master as never)) as NodeRedisConnection;
      return untyped(node).sendCommand([command, ...args]);
    },
  };
}
