/** Which faults a DynamoDB table survives, judged by the service's description of the table (for the doctor). */
import { type Finding, restoreNote, type StoreSettings } from "../../core/durability.ts";
import { PURGE_AT } from "./items.ts";

/** Part of the reply to DescribeTable. */
interface DescribedTable {
  readonly TableArn?: string | undefined;
  readonly Replicas?: readonly { readonly RegionName?: string | undefined }[] | undefined;
  readonly MultiRegionConsistency?: string | undefined;
}

/** Part of the reply to DescribeTimeToLive. */
interface TimeToLive {
  readonly TimeToLiveStatus?: string | undefined;
  readonly AttributeName?: string | undefined;
}

/** The service's descriptions of the table; undefined where the credentials do not allow them. */
export interface TableDescription {
  readonly table: { readonly Table?: DescribedTable } | undefined;
  readonly timeToLive: { readonly TimeToLiveDescription?: TimeToLive } | undefined;
}

/** The account number in the table names of local emulators. */
const EMULATOR = ":000000000000:";

export function judgeDurability(
  name: string,
  description: TableDescription,
  clockSkewMs: number,
): StoreSettings {
  const table = description.table?.Table;
  const isEmulator = table?.TableArn?.includes(EMULATOR) === true;
  const region = table?.TableArn?.split(":")[3];
  const kept: Finding = isEmulator
    ? { survives: "unknown", because: "this is a local emulator, not the DynamoDB service" }
    : { survives: "yes", because: "the service stores a write in several zones before it acknowledges it" };
  return {
    title: `DynamoDB table ${name}${region === undefined ? "" : ` in ${region}`}`,
    survives: {
      "our-crash": { survives: "yes", because: "the service has stored it" },
      "store-crash": kept,
      "power-loss": kept,
      failover: table === undefined ? UNDESCRIBED : (replicaFinding(table) ?? kept),
    },
    notes: [
      `DynamoDB has no clock: leases are judged by the callers' clocks, which may differ by ${clockSkewMs} ms ` +
        "(clockSkewMs); beyond that only the fence is safe",
      restoreNote(
        "the callers' clocks",
        "PointInTimeRecoveryEnabled, which restores to any second up to the last five minutes",
      ),
      ...(isPurgedByTable(description.timeToLive) ? [] : [purgeNote(table)]),
    ],
  };
}

function purgeNote({ MultiRegionConsistency }: DescribedTable = {}): string {
  return MultiRegionConsistency === "STRONG"
    ? "a global table with strong consistency has no TTL: guards scan the table to purge it"
    : `TTL on ${PURGE_AT} is off, or cannot be read: guards scan the table to purge it; turn TTL on`;
}

const UNDESCRIBED: Finding = {
  survives: "unknown",
  because: "the table could not be described",
  raise: "allow dynamodb:DescribeTable, and install @aws-sdk/client-dynamodb where nevertwice finds it",
};

function replicaFinding({ Replicas = [], MultiRegionConsistency }: DescribedTable): Finding | undefined {
  if (Replicas.length === 0 || MultiRegionConsistency === "STRONG") return undefined;
  const regions = Replicas.map(({ RegionName }) => RegionName).join(", ");
  return {
    survives: "no",
    because: `a global table (${regions}): the last writer wins, and another region may not have the claim yet`,
    raise: "claim in one region, or make it a global table with strong consistency",
  };
}

/** Whether DynamoDB itself removes expired items of the table. */
export function isPurgedByTable(timeToLive: TableDescription["timeToLive"]): boolean {
  const { TimeToLiveStatus, AttributeName } = timeToLive?.TimeToLiveDescription ?? {};
  return TimeToLiveStatus === "ENABLED" && AttributeName === PURGE_AT;
}
