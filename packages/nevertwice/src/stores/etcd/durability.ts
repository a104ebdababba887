/** Which faults an etcd cluster survives, judged by what its members tell about themselves (for the doctor). */
import { type Finding, restoreNote, type StoreSettings } from "../../core/durability.ts";
import { isCompacted } from "./errors.ts";
import type { EtcdGateway } from "./gateway.ts";
import * as tx from "./transactions.ts";

interface ClusterMember {
  readonly ID?: string;
  readonly name?: string;
  readonly isLearner?: boolean;
}

/** What one member tells. Undefined: it could not be asked, or the user may not ask. */
export interface MemberStatus {
  readonly endpoint: string;
  readonly version: string | undefined;
  readonly sizeBytes: number | undefined;
  readonly quotaBytes: number | undefined;
  /** Its command line. Options may also come from its environment or from a file. */
  readonly commandLine: string | undefined;
}

export interface ClusterDescription {
  readonly members: readonly ClusterMember[] | undefined;
  readonly statuses: readonly MemberStatus[];
  /** Such as `NOSPACE` and `CORRUPT`. */
  readonly alarms: readonly string[] | undefined;
  /** Whether its history was ever compacted, and how many revisions it has. */
  readonly isCompacted: boolean | undefined;
  readonly revision: number | undefined;
}

/** With fewer revisions than this, it may just be too early for the first compaction. */
const MANY_REVISIONS = 100_000;
/** A full database refuses every claim, so the doctor speaks up before. */
const NEARLY_FULL = 0.8;

/** `key` is one that the user may read. */
export async function readSettings(
  gateway: EtcdGateway,
  key: string,
  clockSkewMs: number,
): Promise<StoreSettings> {
  return judgeDurability(await describeCluster(gateway, key), clockSkewMs);
}

async function describeCluster(gateway: EtcdGateway, key: string): Promise<ClusterDescription> {
  // Rejects if no member answers: a cluster that is down has no settings.
  const { body } = await gateway.call("kv/range", tx.range(key, { keysOnly: true }));
  const [members, alarms, compacted, statuses] = await Promise.all([
    answerIfAny(gateway.call("cluster/member/list", {})),
    answerIfAny(gateway.call("maintenance/alarm", { action: "GET" })),
    wasCompacted(gateway, key),
    Promise.all(gateway.endpoints.map((endpoint) => describeMember(gateway, endpoint))),
  ]);
  const { header } = body as { header?: { revision?: string } };
  return {
    members: (members?.body as { members?: ClusterMember[] } | undefined)?.members,
    alarms:
      (alarms?.body as { alarms?: { alarm?: string }[] } | undefined)?.alarms?.map(
        ({ alarm = "" }) => alarm,
      ) ??
      (alarms && []),
    isCompacted: compacted,
    revision: header?.revision === undefined ? undefined : Number(header.revision),
    statuses,
  };
}

/** The first revision can be read as long as the history was never compacted. */
async function wasCompacted(gateway: EtcdGateway, key: string): Promise<boolean | undefined> {
  try {
    await gateway.call("kv/range", { ...tx.range(key), revision: "1" });
    return false;
  } catch (error) {
    return isCompacted((error as { cause?: unknown }).cause) ? true : undefined;
  }
}

async function describeMember(gateway: EtcdGateway, endpoint: string): Promise<MemberStatus> {
  const [status, metrics, variables] = await Promise.all([
    answerIfAny(gateway.ask(endpoint, "maintenance/status", {})),
    answerIfAny(gateway.ask(endpoint, "metrics")),
    answerIfAny(gateway.ask(endpoint, "debug/vars")),
  ]);
  const { version, dbSize } = (status ?? {}) as { version?: string; dbSize?: string };
  const quota = /^etcd_server_quota_backend_bytes (\S+)$/m.exec(String(metrics ?? ""))?.[1];
  const line = /"cmdline": (\[.*\])/.exec(String(variables ?? ""))?.[1];
  return {
    endpoint,
    version,
    sizeBytes: dbSize === undefined ? undefined : Number(dbSize),
    quotaBytes: quota === undefined ? undefined : Number(quota),
    commandLine: line,
  };
}

/** Undefined if the question was not answered. */
async function answerIfAny<T>(question: Promise<T>): Promise<T | undefined> {
  try {
    return await question;
  } catch {
    return undefined;
  }
}

export function judgeDurability(cluster: ClusterDescription, clockSkewMs: number): StoreSettings {
  const { members, statuses, alarms } = cluster;
  const versions = [...new Set(statuses.flatMap(({ version }) => version ?? []))].sort();
  const voters = members?.filter(({ isLearner }) => isLearner !== true).length;
  const onDisk = diskFinding(statuses, versions);
  const title = [
    `etcd ${versions.join(", ") || "(version unknown)"}`,
    voters === undefined ? "members unknown" : `${voters} ${voters === 1 ? "member" : "members"}`,
  ].join(", ");
  return {
    title,
    survives: {
      "our-crash": { survives: "yes", because: "etcd has stored it" },
      "store-crash": onDisk,
      "power-loss": onDisk,
      failover: onDisk.survives === "no" ? onDisk : failoverFinding(voters),
    },
    ...(alarms?.includes("CORRUPT") && {
      refused:
        "the members of etcd do not have the same data (its CORRUPT alarm is on): restore the cluster.",
    }),
    notes: [
      `leases end by what each process has seen on its monotonic clock; retention ends by the callers' clocks, which may differ by ${clockSkewMs} ms (clockSkewMs)`,
      restoreNote(
        "the callers' clocks",
        "three or five members, so that a snapshot is never needed for a lost machine: a snapshot has nothing after its moment",
      ),
      ...memberNotes(cluster, versions),
      ...compactionNotes(cluster),
      ...spaceNotes(cluster),
    ],
  };
}

/** These releases could lose committed writes when a member crashed; the project advises against them. */
const LOSES_WRITES = /^3\.5\.[012](\D|$)/;

function diskFinding(statuses: readonly MemberStatus[], versions: readonly string[]): Finding {
  if (statuses.some(({ commandLine }) => commandLine?.includes("unsafe-no-fsync")))
    return {
      survives: "no",
      because: "--unsafe-no-fsync: a member acknowledges writes that are not on its disk",
      raise: "run every member without --unsafe-no-fsync",
    };
  const bad = versions.find((version) => LOSES_WRITES.test(version));
  if (bad !== undefined)
    return {
      survives: "no",
      because: `etcd ${bad}: a member that crashes may lose writes that the others have`,
      raise: "upgrade to 3.5.3 or later",
    };
  if (versions.length === 0) return { survives: "unknown", because: "no member told its version" };
  return { survives: "yes", because: "a majority of the members has it on disk before it is acknowledged" };
}

function failoverFinding(voters: number | undefined): Finding {
  if (voters === undefined)
    return { survives: "unknown", because: "the members of the cluster could not be listed" };
  const others = voters - Math.floor(voters / 2) - 1;
  if (others > 0)
    return {
      survives: "yes",
      because: `${voters} members: a new leader has every acknowledged write, and ${others} may be lost`,
    };
  return {
    survives: "no",
    because: `${voters} ${voters === 1 ? "member" : "members"}: without one of them there is no majority`,
    raise: "run 3 members, or 5",
  };
}

function memberNotes({ statuses, members }: ClusterDescription, versions: readonly string[]): string[] {
  const silent = statuses.filter(({ version }) => version === undefined).map(({ endpoint }) => endpoint);
  const old = versions.filter((version) => Number(/^3\.(\d+)/.exec(version)?.[1] ?? 0) < 4);
  return [
    ...(silent.length === 0
      ? []
      : [`no status from ${silent.join(", ")}: it is down, or the user may not ask`]),
    ...(versions.length > 1
      ? [`the members run different versions (${versions.join(", ")}): finish the upgrade`]
      : []),
    ...(old.length > 0
      ? [`etcd ${old.join(", ")} is older than 3.4, the oldest version that the store supports`]
      : []),
    ...((members?.length ?? 0) > statuses.length
      ? [`${statuses.length} of ${members?.length} members are in \`endpoints\`: name them all`]
      : []),
  ];
}

/** etcd does not tell its compaction setting. Its command line may, and a history that was compacted shows it. */
function compactionNotes({ statuses, isCompacted: was, revision = 0 }: ClusterDescription): string[] {
  const isSet = statuses.some(({ commandLine }) =>
    /auto-compaction-retention["=,\s]+[^"]*[1-9]/.test(commandLine ?? ""),
  );
  if (isSet || was === true) return [];
  const advice =
    "set --auto-compaction-retention (such as 1h), or etcd keeps every old value until its database is full";
  if (was === undefined || revision < MANY_REVISIONS)
    return [`whether auto-compaction is on cannot be read from here: ${advice}`];
  return [`auto-compaction seems to be off, since none of ${revision} revisions was compacted: ${advice}`];
}

function spaceNotes({ statuses, alarms }: ClusterDescription): string[] {
  if (alarms?.includes("NOSPACE"))
    return [
      "its database is full (the NOSPACE alarm is on), so claims fail with store-full: compact and defragment it, raise --quota-backend-bytes, then disarm the alarm",
    ];
  const known = statuses.filter(
    ({ quotaBytes, sizeBytes }) => quotaBytes !== undefined && sizeBytes !== undefined,
  );
  const [fullest] = known
    .map(({ endpoint, quotaBytes = 0, sizeBytes = 0 }) => ({
      endpoint,
      share: sizeBytes / quotaBytes,
      quotaBytes,
    }))
    .sort((a, b) => b.share - a.share);
  if (fullest === undefined) return ["its quota (--quota-backend-bytes) cannot be read from here"];
  const quota = `its database may have ${Math.round(fullest.quotaBytes / 2 ** 20)} MiB (--quota-backend-bytes)`;
  const percent = Math.round(fullest.share * 100);
  return [
    fullest.share > NEARLY_FULL
      ? `${quota} and is ${percent} % full at ${fullest.endpoint}: compact and defragment it`
      : `${quota}, ${percent} % used`,
  ];
}
