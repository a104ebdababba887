/** What Redis's settings mean for an acknowledged claim. Pure: the servers were asked elsewhere. */
import { FAULTS, type Fault, type Finding, type StoreSettings } from "../../core/settings.ts";

/** What one server says of itself; undefined where it does not let that be read. */
export interface ServerFacts {
  readonly name: string;
  readonly version: string | undefined;
  readonly role: string | undefined;
  readonly maxMemory: number | undefined;
  readonly policy: string | undefined;
  readonly hasAof: boolean | undefined;
  /** `always`, `everysec` or `no`. */
  readonly fsync: string | undefined;
  /** `no-appendfsync-on-rewrite`: while the file is rewritten, nothing is flushed. */
  readonly pausesFsync: boolean | undefined;
  readonly hasSnapshots: boolean | undefined;
}

const HARDER: Readonly<Record<Finding["survives"], number>> = { no: 0, unknown: 1, yes: 2 };

/** The weakest of its servers speaks for a cluster. */
export function judge(servers: readonly ServerFacts[], replicas: number): StoreSettings {
  const of = (fault: Fault): Finding =>
    servers
      .map((server) => findings(server, replicas)[fault])
      .reduce((a, b) => (HARDER[b.survives] < HARDER[a.survives] ? b : a));
  const survives = Object.fromEntries(FAULTS.map((fault) => [fault, of(fault)])) as Record<Fault, Finding>;
  const refused = servers.map(refusal).find((reason) => reason !== undefined);
  return {
    title: titleOf(servers),
    survives,
    ...(refused === undefined ? {} : { refused }),
    notes: servers.flatMap(notesOn),
  };
}

/** Why a server must keep no claims as it is. */
export function refusal({ name, role, maxMemory, policy }: ServerFacts): string | undefined {
  const where = name === "" ? "" : ` (${name})`;
  if (role === "slave" || role === "replica")
    return `this Redis is a read-only replica${where}: hand in a client of its master`;
  if (!maxMemory || policy === undefined || policy === "noeviction") return undefined;
  return `maxmemory-policy ${policy} evicts claims that are still owed${where}: CONFIG SET maxmemory-policy noeviction`;
}

function findings(server: ServerFacts, replicas: number): Record<Fault, Finding> {
  const { hasAof, fsync, pausesFsync, hasSnapshots } = server;
  const failover: Finding = {
    survives: "no",
    because:
      replicas > 0
        ? `WAIT ${replicas}: usually survives, but Redis may promote a replica that has less`
        : "replication is asynchronous: a promoted replica may not have the last claims",
    ...(replicas > 0 ? {} : { raise: "replicas: 1 makes it rare, not impossible" }),
  };
  const ours: Finding = { survives: "yes", because: "records are in Redis, not in this process" };
  if (hasAof === undefined) {
    const hidden: Finding = { survives: "unknown", because: "this Redis does not let its settings be read" };
    return { "our-crash": ours, "store-crash": hidden, "power-loss": hidden, failover };
  }
  if (!hasAof) {
    const lost: Finding = {
      survives: "no",
      because: hasSnapshots
        ? "appendonly no: what came after the last snapshot is lost"
        : "appendonly no: nothing is kept on disk",
      raise: "CONFIG SET appendonly yes",
    };
    const more = { ...lost, raise: "CONFIG SET appendonly yes, CONFIG SET appendfsync always" };
    return { "our-crash": ours, "store-crash": lost, "power-loss": more, failover };
  }
  const crash: Finding = { survives: "yes", because: "appendonly yes: written before it is answered" };
  return { "our-crash": ours, "store-crash": crash, "power-loss": onPowerLoss(fsync, pausesFsync), failover };
}

function onPowerLoss(fsync: string | undefined, pausesFsync: boolean | undefined): Finding {
  const raise = "CONFIG SET appendfsync always";
  switch (fsync) {
    case undefined:
      return { survives: "unknown", because: "this Redis does not say its appendfsync" };
    case "always":
      if (!pausesFsync)
        return { survives: "yes", because: "appendfsync always: on disk before it is answered" };
      return {
        survives: "no",
        because: "no-appendfsync-on-rewrite yes: nothing is flushed while the file is rewritten",
        raise: "CONFIG SET no-appendfsync-on-rewrite no",
      };
    case "everysec":
      return { survives: "no", because: "appendfsync everysec: up to a second of claims is lost", raise };
    default:
      return {
        survives: "no",
        because: `appendfsync ${fsync}: what the system has not written is lost`,
        raise,
      };
  }
}

function titleOf(servers: readonly ServerFacts[]): string {
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

function notesOn({ name, maxMemory, policy }: ServerFacts): readonly string[] {
  const where = name === "" ? "" : `${name}: `;
  if (maxMemory === undefined || policy === undefined)
    return [`${where}maxmemory-policy is not readable: it must be noeviction, or claims may vanish`];
  if (maxMemory === 0 && policy !== "noeviction")
    return [`${where}maxmemory-policy is ${policy}: as soon as maxmemory is set, claims are refused`];
  return [];
}
