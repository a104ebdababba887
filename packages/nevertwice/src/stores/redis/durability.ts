/**
 * What the settings of Redis mean: reads them from each server, and judges which faults an acknowledged claim survives (for
 * the doctor) and which server must not store claims.
 */
import { FAULTS, type Fault, type Finding, restoreNote, type StoreSettings } from "../../core/durability.ts";
import type { RedisAdapter, RedisNode } from "./client.ts";
import { isForbidden, translateErrors } from "./errors.ts";

/** The settings of one server; undefined if it does not allow reading them. */
export interface ServerFacts {
  /** The address of a server of a cluster; empty for any other one. */
  readonly name: string;
  readonly isReplica?: boolean | undefined;
  readonly version: string | undefined;
  readonly role: string | undefined;
  readonly maxMemory: number | undefined;
  readonly policy: string | undefined;
  readonly hasAof: boolean | undefined;
  /** `always`, `everysec` or `no`. */
  readonly fsync: string | undefined;
  /** `no-appendfsync-on-rewrite`: while the file is being rewritten, nothing is flushed. */
  readonly pausesFsync: boolean | undefined;
  readonly hasSnapshots: boolean | undefined;
  /** How many replicas follow this server now. */
  readonly followers?: number | undefined;
  /** `min-replicas-to-write`. */
  readonly minReplicas?: number | undefined;
}

const APPEND_ONLY_FILE =
  "appendonly yes and appendfsync always, and restore from the append-only file instead of an older snapshot";

const RANKS: Readonly<Record<Finding["survives"], number>> = { no: 0, unknown: 1, yes: 2 };

/** A cluster survives what its weakest server survives: each of its replicas may be the next master. */
export function judgeDurability(servers: readonly ServerFacts[], replicas: number): StoreSettings {
  const isCluster = servers.some(({ name }) => name !== "");
  const weakest = (fault: Fault): Finding => {
    const found = servers
      .map((server) => findings(server, replicas)[fault])
      .reduce((a, b) => (RANKS[b.survives] < RANKS[a.survives] ? b : a));
    return isCluster ? adviceForCluster(fault, found) : found;
  };
  const survives = Object.fromEntries(FAULTS.map((fault) => [fault, weakest(fault)])) as Record<
    Fault,
    Finding
  >;
  const refused = servers.map(unsafeReason).find((reason) => reason !== undefined);
  return {
    title: describeServers(servers),
    survives,
    ...(refused === undefined ? {} : { refused }),
    notes: [restoreNote("the server's clock", APPEND_ONLY_FILE), ...servers.flatMap(notes)],
  };
}

/** The servers of a cluster have their own settings. */
function adviceForCluster(fault: Fault, { raise, ...found }: Finding): Finding {
  if (raise === undefined) return found;
  if (fault === "failover")
    return {
      ...found,
      raise: `${raise}; only another store does, such as etcd or Postgres with a synchronous standby`,
    };
  return { ...found, raise: `on every server of the cluster, replicas included: ${raise}` };
}

/** Of the wrong server, or of a master that a failover has demoted. */
export const REPLICA = "this Redis is a read-only replica: hand in a client of its master";

/** Why a server must not store claims; undefined if it may. The client of a cluster follows a master to its successor. */
export function unsafeReason({ name, role, maxMemory, policy }: ServerFacts): string | undefined {
  const where = name === "" ? "" : ` (${name})`;
  if (name === "" && (role === "slave" || role === "replica")) return REPLICA;
  if (!maxMemory || policy === undefined || policy === "noeviction") return undefined;
  return `maxmemory-policy ${policy} evicts claims before they expire${where}: CONFIG SET maxmemory-policy noeviction`;
}

function findings(server: ServerFacts, replicas: number): Record<Fault, Finding> {
  const { hasAof, fsync, pausesFsync, hasSnapshots } = server;
  const failover = failoverFinding(server, replicas);
  const ours: Finding = { survives: "yes", because: "records are in Redis, not in this process" };
  if (hasAof === undefined) {
    const hidden: Finding = {
      survives: "unknown",
      because: "this Redis does not allow reading its settings",
    };
    return { "our-crash": ours, "store-crash": hidden, "power-loss": hidden, failover };
  }
  if (!hasAof) {
    const lost: Finding = {
      survives: "no",
      because: hasSnapshots
        ? "appendonly no: everything after the last snapshot is lost"
        : "appendonly no: nothing is written to disk",
      raise: "CONFIG SET appendonly yes",
    };
    const more = { ...lost, raise: "CONFIG SET appendonly yes, CONFIG SET appendfsync always" };
    return { "our-crash": ours, "store-crash": lost, "power-loss": more, failover };
  }
  const powerLoss = powerLossFinding(fsync, pausesFsync);
  return { "our-crash": ours, "store-crash": crashFinding(fsync), "power-loss": powerLoss, failover };
}

/** Never "yes": whatever the settings, Redis does not promise which replica becomes the next master. */
function failoverFinding({ followers, minReplicas }: ServerFacts, replicas: number): Finding {
  if (replicas === 0)
    return {
      survives: "no",
      because: `replication is asynchronous: a promoted replica may lack the last claims${
        minReplicas ? `; min-replicas-to-write ${minReplicas} only limits how many` : ""
      }`,
      raise: "replicas: 1 makes it rare, not impossible",
    };
  const because = `WAIT ${replicas}: usually survives, but Redis may promote a replica that lacks the last writes`;
  if (followers === undefined || followers <= replicas) return { survives: "no", because };
  return {
    survives: "no",
    because: `${because}: ${followers} replicas follow now`,
    raise: `replicas: ${followers}, so that every replica has each step; while one is away, no step counts`,
  };
}

/**
 * Redis writes a command to its file before it answers, and another thread flushes that file once a second. During a flush,
 * the write is delayed for up to two seconds, but the answer is not.
 */
function crashFinding(fsync: string | undefined): Finding {
  if (fsync === undefined) return HIDDEN_FSYNC;
  if (fsync !== "everysec")
    return { survives: "yes", because: "appendonly yes: written before Redis answers" };
  return {
    survives: "no",
    because: "appendfsync everysec: during a flush, Redis answers before it writes",
    raise: "CONFIG SET appendfsync always",
  };
}

const HIDDEN_FSYNC: Finding = { survives: "unknown", because: "this Redis does not report its appendfsync" };

function powerLossFinding(fsync: string | undefined, pausesFsync: boolean | undefined): Finding {
  const raise = "CONFIG SET appendfsync always";
  switch (fsync) {
    case undefined:
      return HIDDEN_FSYNC;
    case "always":
      if (!pausesFsync)
        return { survives: "yes", because: "appendfsync always: on disk before Redis answers" };
      return {
        survives: "no",
        because: "no-appendfsync-on-rewrite yes: nothing is flushed while the file is being rewritten",
        raise: "CONFIG SET no-appendfsync-on-rewrite no",
      };
    case "everysec":
      return { survives: "no", because: "appendfsync everysec: up to a second of claims is lost", raise };
    default:
      return {
        survives: "no",
        because: `appendfsync ${fsync}: everything that the operating system has not yet written is lost`,
        raise,
      };
  }
}

function describeServers(servers: readonly ServerFacts[]): string {
  const [first] = servers;
  const kinds = new Set(servers.map(({ hasAof, fsync }) => persistence(hasAof, fsync)));
  const name = `Redis${first?.version === undefined ? "" : ` ${first.version}`}`;
  const masters = servers.filter(({ isReplica }) => !isReplica).length;
  const many = servers.length > 1 ? ` cluster of ${masters} masters` : "";
  return `${name}${many}, ${[...kinds].join(" and ")}`;
}

function persistence(hasAof: boolean | undefined, fsync: string | undefined): string {
  if (hasAof === undefined) return "settings not readable";
  return hasAof ? `AOF ${fsync ?? "on"}` : "no AOF";
}

function notes({ name, maxMemory, policy }: ServerFacts): readonly string[] {
  const where = name === "" ? "" : `${name}: `;
  if (maxMemory === undefined || policy === undefined)
    return [
      `${where}maxmemory-policy is not readable: it must be noeviction, otherwise Redis may evict claims`,
    ];
  if (maxMemory === 0 && policy !== "noeviction")
    return [`${where}maxmemory-policy is ${policy}: as soon as maxmemory is set, the store refuses claims`];
  return [];
}

const CONFIGURED = [
  "maxmemory",
  "maxmemory-policy",
  "appendfsync",
  "no-appendfsync-on-rewrite",
  "save",
  "min-replicas-to-write",
] as const;

/** If a server hides some settings, the others are still read. */
export function readServerFacts(nodes: readonly RedisNode[]): Promise<readonly ServerFacts[]> {
  return Promise.all(nodes.map(readNodeFacts));
}

/** How long a replica may take to answer: one that cannot be reached must not delay a claim or the doctor. */
const REPLICA_MS = 1_000;

/** The settings of each replica that answers, and the names of the others. */
export async function readReplicas({
  replicas,
}: Pick<RedisAdapter, "replicas">): Promise<{ answered: readonly ServerFacts[]; silent: readonly string[] }> {
  const nodes = replicas?.() ?? [];
  const asked = await Promise.all(
    nodes.map((node) => Promise.race([readNodeFacts(node), pause(REPLICA_MS)]).catch(() => undefined)),
  );
  const silent = nodes.filter((_, index) => asked[index] === undefined).map(({ name }) => name);
  return { answered: asked.filter((facts) => facts !== undefined), silent };
}

function pause(ms: number): Promise<undefined> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(undefined), ms).unref?.();
  });
}

/** For the doctor. */
export async function readSettings(
  adapter: Pick<RedisAdapter, "masters" | "replicas">,
  replicas: number,
): Promise<StoreSettings> {
  const masters = await translateErrors(adapter.masters().then(readServerFacts));
  const { answered, silent } = await readReplicas(adapter);
  const settings = judgeDurability([...masters, ...answered], replicas);
  const unchecked = silent.map((name) => `${name}: this replica did not answer, so it was not checked`);
  return { ...settings, notes: [...settings.notes, ...unchecked] };
}

async function readNodeFacts(node: RedisNode): Promise<ServerFacts> {
  const [info, ...configured] = await Promise.all([
    unlessForbidden(node.send("INFO")).then(parseInfo),
    ...CONFIGURED.map((name) =>
      unlessForbidden(node.send("CONFIG", "GET", name)).then((reply) => parseConfig(reply, name)),
    ),
  ]);
  const [maxMemory, policy, fsync, pausesFsync, save, minReplicas] = configured;
  const followers = info.get("connected_slaves");
  const memory = info.get("maxmemory") ?? maxMemory;
  const aof = info.get("aof_enabled");
  return {
    name: node.name,
    isReplica: node.isReplica,
    version: info.get("redis_version"),
    role: info.get("role"),
    maxMemory: memory === undefined ? undefined : Number(memory),
    policy: info.get("maxmemory_policy") ?? policy,
    hasAof: aof === undefined ? undefined : aof === "1",
    fsync,
    pausesFsync: pausesFsync === undefined ? undefined : pausesFsync === "yes",
    hasSnapshots: save === undefined ? undefined : save !== "",
    followers: followers === undefined ? undefined : Number(followers),
    minReplicas: minReplicas === undefined ? undefined : Number(minReplicas),
  };
}

async function unlessForbidden(reply: Promise<unknown>): Promise<unknown> {
  try {
    return await reply;
  } catch (error) {
    if (isForbidden(error)) return undefined;
    throw error;
  }
}

function parseInfo(reply: unknown): ReadonlyMap<string, string> {
  const lines = String(reply ?? "").split(/\r?\n/);
  return new Map(
    lines.flatMap((line): [string, string][] => {
      const at = line.indexOf(":");
      return at < 0 ? [] : [[line.slice(0, at), line.slice(at + 1)]];
    }),
  );
}

/** RESP2 answers CONFIG GET with a list, RESP3 with a map, which clients convert to a Map or an object. */
function parseConfig(reply: unknown, name: string): string | undefined {
  if (Array.isArray(reply)) return reply[1] === undefined ? undefined : String(reply[1]);
  const found =
    reply instanceof Map ? reply.get(name) : (reply as Record<string, unknown> | undefined)?.[name];
  return found === undefined ? undefined : String(found);
}
