/** What a DynamoDB table survives, judged by how the service describes it. */
import type { Finding, StoreSettings } from "../../core/settings.ts";
import { PURGE_AT } from "./item.ts";

/** What DescribeTable says, in part. */
interface Table {
  readonly TableArn?: string | undefined;
  readonly Replicas?: readonly { readonly RegionName?: string | undefined }[] | undefined;
  readonly MultiRegionConsistency?: string | undefined;
}

/** What DescribeTimeToLive says. */
interface TimeToLive {
  readonly TimeToLiveStatus?: string | undefined;
  readonly AttributeName?: string | undefined;
}

/** What the service answers when it is asked about the table; undefined where it may not be asked. */
export interface Description {
  readonly table: { readonly Table?: Table } | undefined;
  readonly timeToLive: { readonly TimeToLiveDescription?: TimeToLive } | undefined;
}

/** The account of every program that stands in for the service. */
const STAND_IN = ":000000000000:";

export function judge(name: string, description: Description, clockSkewMs: number): StoreSettings {
  const table = description.table?.Table;
  const isStandIn = table?.TableArn?.includes(STAND_IN) === true;
  const region = table?.TableArn?.split(":")[3];
  const kept: Finding = isStandIn
    ? { survives: "unknown", because: "this is not the service but a program that stands in for it" }
    : { survives: "yes", because: "the service keeps a write in several zones before it acknowledges it" };
  return {
    title: `DynamoDB table ${name}${region === undefined ? "" : ` in ${region}`}`,
    survives: {
      "our-crash": { survives: "yes", because: "the service has it" },
      "store-crash": kept,
      "power-loss": kept,
      failover: table === undefined ? UNDESCRIBED : (ofReplicas(table) ?? kept),
    },
    notes: [
      `DynamoDB has no clock: leases are judged by ours, which may be ${clockSkewMs} ms apart (clockSkewMs); ` +
        "beyond that only the fence is safe",
      ...(isPurgedByTable(description.timeToLive)
        ? []
        : [
            `TTL on ${PURGE_AT} is not on, as far as can be told: guards scan the table to purge it; turn it on`,
          ]),
    ],
  };
}

const UNDESCRIBED: Finding = {
  survives: "unknown",
  because: "the table could not be described",
  raise: "allow dynamodb:DescribeTable, and install @aws-sdk/client-dynamodb where nevertwice finds it",
};

function ofReplicas({ Replicas = [], MultiRegionConsistency }: Table): Finding | undefined {
  if (Replicas.length === 0 || MultiRegionConsistency === "STRONG") return undefined;
  const regions = Replicas.map(({ RegionName }) => RegionName).join(", ");
  return {
    survives: "no",
    because: `a global table (${regions}): the last writer wins, and another region may not have the claim yet`,
    raise: "claim in one region, or make it a global table with strong consistency",
  };
}

/** Whether the table removes what is past its time by itself. */
export function isPurgedByTable(timeToLive: Description["timeToLive"]): boolean {
  const { TimeToLiveStatus, AttributeName } = timeToLive?.TimeToLiveDescription ?? {};
  return TimeToLiveStatus === "ENABLED" && AttributeName === PURGE_AT;
}
