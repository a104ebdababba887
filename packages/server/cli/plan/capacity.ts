/** What a load takes of each store, computed from what one key and one call were measured to cost. */

/** Bytes, as a line over the bytes of the outcome. */
export interface ByteLine {
  readonly fixed: number;
  readonly perByte: number;
}

/** Microseconds of one processor. `server` is absent where the database runs in the client's process, or was an emulator. */
export interface CallTimes {
  readonly client: number;
  readonly server?: number;
}

/** What Postgres keeps and logs for each first call. */
export interface IdBytes {
  readonly index: number;
  readonly log: number;
  readonly compressedLog: number;
}

/** What a key and a call cost on one store. */
export interface Coefficients {
  /** What the store keeps for a key. */
  readonly bytes: ByteLine;
  /** The part of it that should be in memory; absent if it was not measured. */
  readonly memory?: ByteLine;
  /** What a first call writes to the log of the database; absent if it has none that can be measured. */
  readonly log?: ByteLine;
  readonly first: CallTimes;
  readonly replay: CallTimes;
  /** Absent if the database removes expired records by itself. `perSecond` is what one guard removes. */
  readonly purge?: CallTimes & { readonly perSecond: number };
  /** With ids that are hashes, as the store has them, and with ids in the order of time. */
  readonly ids?: { readonly hashed: IdBytes; readonly ordered: IdBytes };
}

export const PLANNED_STORES = ["sqlite", "postgres", "mysql", "redis", "redis-cluster", "dynamodb"] as const;
export type PlannedStore = (typeof PLANNED_STORES)[number];

export interface Load {
  /** Calls per second, replays among them. */
  readonly rate: number;
  readonly retentionMs: number;
  /** Bytes of the JSON text of an outcome. */
  readonly outcomeBytes: number;
  /** The share of calls that are replays: 0.05 for 5 %. */
  readonly replays: number;
}

/** What is undefined does not apply to the store, or was not measured. */
export interface StorePlan {
  readonly store: PlannedStore;
  readonly keys: number;
  readonly storedBytes: number;
  /** What should be in memory, so that a call reads nothing from a disk. */
  readonly memoryBytes: number | undefined;
  readonly logBytesPerSecond: number | undefined;
  /** The same if the page of each id is new to the log, as it is after a checkpoint and with very many keys. */
  readonly mostLogBytesPerSecond: number | undefined;
  /** Processors that the calls and the purges keep busy in the application's processes. */
  readonly clientCores: number | undefined;
  readonly processes: number | undefined;
  readonly serverCores: number | undefined;
  /** Masters of a cluster, each of which uses one processor. */
  readonly masters: number | undefined;
  readonly connections: number | undefined;
  /** Records that expire each second. */
  readonly expiring: number;
  /** How many one guard removes each second. */
  readonly purgedPerSecond: number | undefined;
  readonly units: DynamodbUnits | undefined;
  /** Why this store cannot take the load, or only with care. */
  readonly warnings: readonly string[];
}

/** What DynamoDB bills each second. */
export interface DynamodbUnits {
  readonly writes: number;
  /** With `readFirst`: a replay is a read instead of a write that fails. */
  readonly readFirst: { readonly reads: number; readonly writes: number };
}

/** First calls and replays a second. */
interface Calls {
  readonly firsts: number;
  readonly replays: number;
}

/** The share of a processor that may be busy: above it, a burst waits. */
const BUSY = 0.7;
/** Redis Cluster has at least three masters. */
const LEAST_MASTERS = 3;
/** The pool of the driver, and a connection that listens, for each process. Redis Cluster: two for each master. */
const CONNECTIONS: Partial<Record<PlannedStore, number>> = { postgres: 11, mysql: 10, redis: 2 };
/** The default of `max_connections`. */
const MOST_CONNECTIONS: Partial<Record<PlannedStore, number>> = { postgres: 100, mysql: 151 };
/** DynamoDB counts writes by the kilobyte, and consistent reads by four. */
const WRITE_UNIT_BYTES = 1_024;
const READ_UNIT_BYTES = 4_096;
/** The largest outcome that a DynamoDB item has room for. */
const MOST_DYNAMODB_BYTES = 400_000;

export function planStore(store: PlannedStore, costs: Coefficients, load: Load): StorePlan {
  const calls = { firsts: load.rate * (1 - load.replays), replays: load.rate * load.replays };
  const keys = (calls.firsts * load.retentionMs) / 1_000;
  // What does not depend on the outcome has a line that noise can make fall.
  const at = ({ fixed, perByte }: ByteLine) => fixed + Math.max(0, perByte) * load.outcomeBytes;
  const log = costs.log && calls.firsts * at(costs.log);
  const plan = {
    store,
    keys: whole(keys),
    storedBytes: whole(keys * at(costs.bytes)),
    memoryBytes: costs.memory && whole(keys * at(costs.memory)),
    logBytesPerSecond: log && whole(log),
    mostLogBytesPerSecond: log && costs.ids && whole(log + calls.firsts * pageBytes(costs.ids)),
    // The emulator of DynamoDB says nothing of speed, and the service has no processors to count.
    ...(store === "dynamodb" ? NO_MACHINES : machinesFor(store, costs, calls)),
    expiring: whole(calls.firsts),
    units: store === "dynamodb" ? unitsFor(costs.bytes, calls, at(costs.bytes)) : undefined,
  };
  return { ...plan, warnings: warningsFor(plan, load) };
}

/** Rounded up, but not because of the last digit of a binary fraction. */
function whole(value: number): number {
  return Math.ceil(Number(value.toPrecision(12)));
}

/** How much more log a page of the index on ids takes that is written as a whole. */
function pageBytes({ hashed, ordered }: NonNullable<Coefficients["ids"]>): number {
  return Math.max(0, hashed.log - ordered.log);
}

type Machines = Pick<
  StorePlan,
  "clientCores" | "processes" | "serverCores" | "masters" | "connections" | "purgedPerSecond"
>;

const NO_MACHINES: Machines = {
  clientCores: undefined,
  processes: undefined,
  serverCores: undefined,
  masters: undefined,
  connections: undefined,
  purgedPerSecond: undefined,
};

function machinesFor(store: PlannedStore, costs: Coefficients, calls: Calls): Machines {
  const clientCores = coresFor("client", costs, calls) as number;
  const serverCores = coresFor("server", costs, calls);
  const processes = Math.max(1, whole(clientCores / BUSY));
  const masters =
    store === "redis-cluster" && serverCores !== undefined
      ? Math.max(LEAST_MASTERS, whole(serverCores / BUSY))
      : undefined;
  // A client of a cluster connects to every master, and so does its subscriber for sharded pub/sub.
  const perProcess = masters === undefined ? CONNECTIONS[store] : 2 * masters;
  return {
    clientCores,
    processes,
    serverCores,
    masters,
    connections: perProcess && perProcess * processes,
    purgedPerSecond: costs.purge && whole(costs.purge.perSecond),
  };
}

/** Each key that is claimed is also purged one day. */
function coresFor(
  side: "client" | "server",
  { first, replay, purge }: Coefficients,
  { firsts, replays }: Calls,
): number | undefined {
  const [forFirst, forReplay, forPurge = 0] = [first[side], replay[side], purge?.[side]];
  if (forFirst === undefined || forReplay === undefined) return undefined;
  return (firsts * (forFirst + forPurge) + replays * forReplay) / 1_000_000;
}

/**
 * A claim writes the item without an outcome, and its completion the whole item. A replay is a write that fails, billed by
 * the item that it meets. With `readFirst` each claim reads first, and a first call finds nothing, which is one unit.
 */
function unitsFor({ fixed }: ByteLine, { firsts, replays }: Calls, itemBytes: number): DynamodbUnits {
  const [claim, item] = [fixed, itemBytes].map((bytes) => Math.ceil(bytes / WRITE_UNIT_BYTES)) as [
    number,
    number,
  ];
  const written = firsts * (claim + item);
  return {
    writes: whole(written + replays * item),
    readFirst: {
      reads: whole(firsts + replays * Math.ceil(itemBytes / READ_UNIT_BYTES)),
      writes: whole(written),
    },
  };
}

function warningsFor(plan: Omit<StorePlan, "warnings">, { outcomeBytes }: Load): readonly string[] {
  const { store, clientCores = 0, serverCores = 0, connections = 0, processes = 1, purgedPerSecond } = plan;
  const mostConnections = MOST_CONNECTIONS[store];
  const warnings: readonly (readonly [condition: boolean, text: string])[] = [
    [
      store === "sqlite" && clientCores > BUSY,
      "one machine, and one transaction at a time: use a server for this rate",
    ],
    [
      store === "redis" && serverCores > BUSY,
      "one server runs commands on one processor: use a cluster for this rate",
    ],
    [
      mostConnections !== undefined && connections > mostConnections,
      `more connections than max_connections allows by default (${mostConnections}): raise it, or set poolSize`,
    ],
    [
      purgedPerSecond !== undefined && plan.expiring > processes * purgedPerSecond,
      "more keys expire than the guards of these processes remove: the table grows",
    ],
    [
      store === "dynamodb" && outcomeBytes > MOST_DYNAMODB_BYTES,
      "an item has no room for such an outcome: it is completed as not kept",
    ],
  ];
  return warnings.filter(([condition]) => condition).map(([, text]) => text);
}
