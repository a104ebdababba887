/**
 * What the settings of Redis mean: reads them from each server, judges which faults an acknowledged claim survives (for the
 * doctor), and refuses claims on a server that must not store them.
 */

import { FAULTS, type Fault, type Finding, type StoreSettings } from "../../core/durability.ts";
import { NevertwiceError } from "../../core/errors.ts";
import type { ClientListeners, RedisAdapter, RedisNode } from "./client.ts";
import { isForbidden, translateErrors } from "./errors.ts";

/** The settings of one server; undefined if it does not allow reading them. */
export interface ServerFacts {
  readonly name: string;
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
}

const RANKS: Readonly<Record<Finding["survives"], number>> = { no: 0, unknown: 1, yes: 2 };

/** A cluster survives what its weakest server survives. */
export function judgeDurability(servers: readonly ServerFacts[], replicas: number): StoreSettings {
  const weakest = (fault: Fault): Finding =>
    servers
      .map((server) => findings(server, replicas)[fault])
      .reduce((a, b) => (RANKS[b.survives] < RANKS[a.survives] ? b : a));
  const survives = Object.fromEntries(FAULTS.map((fault) => [fault, weakest(fault)])) as Record<
    Fault,
    Finding
  >;
  const refused = servers.map(unsafeReason).find((reason) => reason !== undefined);
  return {
    title: describeServers(servers),
    survives,
    ...(refused === undefined ? {} : { refused }),
    notes: servers.flatMap(notes),
  };
}

/** Why a server must not store claims; undefined if it may. */
function unsafeReason({ name, role, maxMemory, policy }: ServerFacts): string | undefined {
  const where = name === "" ? "" : ` (${name})`;
  if (role === "slave" || role === "replica")
    return `this Redis is a read-only replica${where}: hand in a client of its master`;
  if (!maxMemory || policy === undefined || policy === "noeviction") return undefined;
  return `maxmemory-policy ${policy} evicts claims before they expire${where}: CONFIG SET maxmemory-policy noeviction`;
}

function findings(server: ServerFacts, replicas: number): Record<Fault, Finding> {
  const { hasAof, fsync, pausesFsync, hasSnapshots } = server;
  const failover: Finding = {
    survives: "no",
    because:
      replicas > 0
        ? `WAIT ${replicas}: usually survives, but Redis may promote a replica that lacks the last writes`
        : "replication is asynchronous: a promoted replica may lack the last claims",
    ...(replicas > 0 ? {} : { raise: "replicas: 1 makes it rare, not impossible" }),
  };
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
  const many = servers.length > 1 ? ` cluster of ${servers.length} masters` : "";
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
] as const;

/** If a server hides some settings, the others are still read. */
export function readServerFacts(nodes: readonly RedisNode[]): Promise<readonly ServerFacts[]> {
  return Promise.all(nodes.map(readNodeFacts));
}

async function readNodeFacts(node: RedisNode): Promise<ServerFacts> {
  const [info, ...configured] = await Promise.all([
    unlessForbidden(node.send("INFO")).then(parseInfo),
    ...CONFIGURED.map((name) =>
      unlessForbidden(node.send("CONFIG", "GET", name)).then((reply) => parseConfig(reply, name)),
    ),
  ]);
  const [maxMemory, policy, fsync, pausesFsync, save] = configured;
  const memory = info.get("maxmemory") ?? maxMemory;
  const aof = info.get("aof_enabled");
  return {
    name: node.name,
    version: info.get("redis_version"),
    role: info.get("role"),
    maxMemory: memory === undefined ? undefined : Number(memory),
    policy: info.get("maxmemory_policy") ?? policy,
    hasAof: aof === undefined ? undefined : aof === "1",
    fsync,
    pausesFsync: pausesFsync === undefined ? undefined : pausesFsync === "yes",
    hasSnapshots: save === undefined ? undefined : save !== "",
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

/** The longest time between two checks. Shortened at random, so that not all processes check at once. */
const CHECK_EVERY_MS = 10_000;

export interface SafetyCheck {
  /** Undefined if a claim may proceed at once, else a promise to await first. Rejects with `store-unsafe`. */
  check(): Promise<void> | undefined;
}

/**
 * Checks whether Redis may store claims: before the first claim, after every lost connection, and then at intervals, since
 * settings can change and another server may answer at the same address. No claim is granted on an older check. There is no
 * timer: the claim that finds the check due runs it.
 */
export function createSafetyCheck(adapter: RedisAdapter, listeners: ClientListeners): SafetyCheck {
  let isKnownSafe = false;
  let safeUntil = 0;
  let lossesAtCheck = 0;
  let checking: Promise<void> | undefined;

  function isDue(): boolean {
    return listeners.losses() !== lossesAtCheck || performance.now() >= safeUntil;
  }

  function markChecked(losses: number): void {
    lossesAtCheck = losses;
    safeUntil = performance.now() + CHECK_EVERY_MS * (0.5 + Math.random() / 2);
  }

  async function checkAll(): Promise<void> {
    // Counted first, so that a connection that is lost during the check causes another one.
    const losses = listeners.losses();
    const servers = await translateErrors(adapter.masters().then(readServerFacts));
    const reason = servers.map(unsafeReason).find((each) => each !== undefined);
    isKnownSafe = reason === undefined;
    if (reason !== undefined) throw new NevertwiceError("store-unsafe", `${reason}.`);
    markChecked(losses);
  }

  /** If a server is no longer safe, the next claim checks all. A server that cannot be reached is checked when it is back. */
  async function checkEach(): Promise<void> {
    markChecked(listeners.losses());
    const checkNode = async (node: RedisNode): Promise<void> => {
      if ((await readServerFacts([node])).some((facts) => unsafeReason(facts) !== undefined))
        isKnownSafe = false;
    };
    await Promise.allSettled((await adapter.masters()).map(checkNode));
  }

  return {
    check() {
      if (isKnownSafe && !isDue()) return undefined;
      if (isKnownSafe && adapter.isCluster) {
        // Not awaited: a node that cannot be reached must not delay claims on the others.
        checkEach().catch(() => {});
        return undefined;
      }
      checking ??= checkAll().finally(() => {
        checking = undefined;
      });
      return checking;
    },
  };
}
