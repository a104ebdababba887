/**
 * Records in one DynamoDB table, one item each. Every write is conditional on the item that it replaces, so the service
 * decides which caller wins. DynamoDB has no clock: leases and retention are judged by the caller's clock, and end
 * `clockSkewMs` later than requested. So two callers never own a key at the same time, as long as their clocks differ by no
 * more than that. Beyond it only the fence is safe.
 */
import { type Clock, systemClock } from "../core/clock.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { checkOptions, isBoolean, isClock, isText, wholeFrom } from "../core/option-checks.ts";
import type { CompleteRequest, ListRequest, PurgeReport, Store } from "../core/store.ts";
import { randomToken } from "../core/token.ts";
import { createCompareAndSet, type RecordSnapshot, type WriteResult } from "./compare-and-set.ts";
import {
  createDescriptions,
  createDocuments,
  type Documents,
  type DynamodbClient,
  type DynamodbItem,
  isClient,
  names,
  values,
} from "./dynamodb/client.ts";
import { isPurgedByTable, judgeDurability } from "./dynamodb/durability.ts";
import { failedCondition, isAccessDenied, isConflictOfRegions, toStoreError } from "./dynamodb/errors.ts";
import { fromAttributes, fromItem, listRecords, PURGE_AT, toItem, toPurgeAt } from "./dynamodb/items.ts";
import { undecidedByList } from "./listing.ts";

export type { DynamodbClient } from "./dynamodb/client.ts";

/** Options of `dynamodbStore`. */
export interface DynamodbStoreOptions {
  /** A `DynamoDBDocument` or `DynamoDBDocumentClient` of @aws-sdk/lib-dynamodb. Closing the store does not destroy it. */
  readonly client: DynamodbClient;
  /** Name of the table. */
  readonly table: string;
  /** Decides when leases and retention end; default: the system clock. */
  readonly clock?: Clock;
  /**
   * How many milliseconds the clocks of all users of the table may differ. After a crash the key stays
   * blocked this much longer than the lease. All processes must use the same value.
   * @default 5_000 (5 s)
   */
  readonly clockSkewMs?: number;
  /**
   * Whether a claim reads the item before it writes. A replay is then a consistent read instead of a write that
   * fails, and a first call has one more trip: worth it where replays are common.
   * @default false
   */
  readonly readFirst?: boolean;
}

const CLOCK_SKEW_MS = 5_000;
/** An item may have 409,600 bytes, and the rest of a record takes less than 8,000. */
const MAX_OUTCOME_BYTES = 400_000;
const DELETES_AT_ONCE = 25;
/** How often a write is sent that meets a write of the same item in another region, and how long to wait between. */
const CONFLICT_TRIES = 5;
const CONFLICT_PAUSE_MS = 20;

/** The input of `new CreateTableCommand(dynamodbTable("nevertwice"))`. Turn TTL on for the attribute `purgeAt`. */
export function dynamodbTable(name: string) {
  return {
    TableName: name,
    AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" as const }],
    KeySchema: [{ AttributeName: "id", KeyType: "HASH" as const }],
    BillingMode: "PAY_PER_REQUEST" as const,
  };
}

const OPTION_CHECKS = {
  client: isClient,
  table: isText,
  clock: isClock,
  clockSkewMs: wholeFrom(0),
  readFirst: isBoolean,
};

/**
 * Keeps records in DynamoDB. Needs its table: create it with `dynamodbTable(name)`.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
 * import { DynamoDBDocumentClient } from "@aws-sdk/lib-dynamodb";
 * import { createGuard } from "nevertwice";
 * import { dynamodbStore } from "nevertwice/stores/dynamodb";
 *
 * const client = DynamoDBDocumentClient.from(new DynamoDBClient());
 * export const guard = createGuard({ store: dynamodbStore({ client, table: "nevertwice" }) });
 * ```
 */
export function dynamodbStore(options: DynamodbStoreOptions): Store {
  checkOptions(options, OPTION_CHECKS);
  isClient("client", options.client);
  isText("table", options.table);
  const { client, table, clock = systemClock, clockSkewMs = CLOCK_SKEW_MS, readFirst = false } = options;
  const documents = createDocuments(client);
  const descriptions = createDescriptions(client, table);
  let isClosed = false;
  let isPurged = false;
  let scannedTo: DynamodbItem | undefined;

  async function send(
    name: keyof Documents,
    input: DynamodbItem,
    signal: AbortSignal | undefined,
  ): Promise<DynamodbItem> {
    // The SDK's client still works after the store was closed, so the store refuses the call itself.
    if (isClosed) throw new NevertwiceError("unavailable", "the DynamoDB store is closed.");
    for (let tries = 1; ; tries++) {
      try {
        return await documents[name]({ TableName: table, ...input }, signal && { abortSignal: signal });
      } catch (error) {
        if (isConflictOfRegions(error) && tries < CONFLICT_TRIES && !signal?.aborted) await pause(tries);
        else throw failedCondition(error) === undefined ? toStoreError(error, table) : error;
      }
    }
  }

  /** `now` is from before the request: a record that was renewed while the reply was on its way must not look lapsed. */
  function toSnapshot(item: DynamodbItem | undefined, now: number): RecordSnapshot {
    return item === undefined ? { record: undefined, mark: "", now } : { ...fromItem(item), now };
  }

  async function read(id: string, signal?: AbortSignal): Promise<RecordSnapshot> {
    const now = clock.now();
    const { Item: item } = await send("get", { Key: { id }, ConsistentRead: true }, signal);
    return toSnapshot(item as DynamodbItem | undefined, now);
  }

  /** A conditional write. True if it succeeded; otherwise the current record, if the service returned it. */
  async function writeIf(
    name: "put" | "update" | "delete",
    input: DynamodbItem,
    signal: AbortSignal | undefined,
  ): Promise<true | RecordSnapshot | undefined> {
    const now = clock.now();
    try {
      await send(name, { ...input, ReturnValuesOnConditionCheckFailure: "ALL_OLD" }, signal);
      return true;
    } catch (error) {
      const failed = failedCondition(error);
      if (failed === undefined) throw error;
      return failed.item && toSnapshot(fromAttributes(failed.item), now);
    }
  }

  async function write(
    id: string,
    before: RecordSnapshot,
    record: RecordSnapshot["record"],
    signal?: AbortSignal,
  ): Promise<WriteResult> {
    const condition =
      before.record === undefined
        ? { ConditionExpression: "attribute_not_exists(#id)", ...names("id") }
        : {
            ConditionExpression: "#mark = :before",
            ...names("mark"),
            ...values({ before: before.mark }),
          };
    const mark = randomToken();
    const answer =
      record === undefined
        ? await writeIf("delete", { Key: { id }, ...condition }, signal)
        : await writeIf("put", { Item: toItem({ record, mark }, clockSkewMs), ...condition }, signal);
    // The SDK repeats a request whose reply was lost. Then the condition fails because of this very write.
    if (answer === true || answer?.mark === mark) return { fence: record?.fence ?? 0 };
    return { overtakenBy: answer };
  }

  const steps = createCompareAndSet({ read, write });

  /** Like `completeRecord` in core/record.ts for a pending record, but without reading it first. */
  async function completePending(request: CompleteRequest): Promise<true | RecordSnapshot | undefined> {
    const now = clock.now();
    const { id, token, outcome, retentionMs } = request;
    const keptUntil = now + retentionMs;
    const set = {
      outcome,
      retentionMs,
      keptUntil,
      completedAt: now,
      state: "completed",
      mark: randomToken(),
    };
    const assigned = { ...set, [PURGE_AT]: toPurgeAt(keptUntil, clockSkewMs) };
    const assigning = Object.keys(assigned);
    const update = {
      Key: { id },
      UpdateExpression: `SET ${assigning.map((name) => `#${name} = :${name}`).join(", ")} REMOVE #steps`,
      ConditionExpression:
        "#token = :token AND #state = :pending AND (#hold = :true OR #keptUntil > :completedAt)",
      ...names("token", "hold", "steps", ...assigning),
      ...values({ ...assigned, token, pending: "pending", true: true }),
    };
    return writeIf("update", update, request.signal);
  }

  async function purge(
    limit: number,
    { signal }: Pick<CompleteRequest, "signal"> = {},
  ): Promise<PurgeReport> {
    if (!isPurged && scannedTo === undefined)
      isPurged = isPurgedByTable(await describeIfAllowed(descriptions.timeToLive));
    if (isPurged) return { removed: 0, more: false };
    const now = clock.now();
    const expired = {
      Limit: limit,
      ...(scannedTo && { ExclusiveStartKey: scannedTo }),
      FilterExpression: `#keptUntil <= :now AND NOT (#state = :pending AND #hold = :true) AND ${IS_SOUND}`,
      ProjectionExpression: "#id, #mark",
      ...names("id", "mark", "keptUntil", "state", "hold", "completedAt", "leaseEndsAt"),
      ...values({ now, pending: "pending", completed: "completed", released: "released", true: true }),
    };
    const page = await send("scan", expired, signal);
    scannedTo = page.LastEvaluatedKey as DynamodbItem | undefined;
    const items = page.Items as readonly DynamodbItem[];
    let removed = 0;
    for (let from = 0; from < items.length; from += DELETES_AT_ONCE) {
      const chunk = items.slice(from, from + DELETES_AT_ONCE);
      const removals = await Promise.all(chunk.map((item) => remove(item, signal)));
      removed += removals.filter(Boolean).length;
    }
    // A scan is billed for every item it reads. So it continues immediately only if it found something.
    return { removed, more: scannedTo !== undefined && removed > 0 };
  }

  /** False if the item has changed since it was scanned. */
  async function remove({ id, mark }: DynamodbItem, signal: AbortSignal | undefined): Promise<boolean> {
    const condition = { ConditionExpression: "#mark = :mark", ...names("mark"), ...values({ mark }) };
    return (await writeIf("delete", { Key: { id }, ...condition }, signal)) === true;
  }

  /** Undefined if the credentials do not allow it, or if @aws-sdk/client-dynamodb is not installed. */
  async function describeIfAllowed(describe: () => Promise<DynamodbItem>): Promise<DynamodbItem | undefined> {
    try {
      return await describe();
    } catch (error) {
      if (isNevertwiceError(error, "driver-missing") || isAccessDenied(error)) return undefined;
      throw toStoreError(error, table);
    }
  }

  const list = (request: ListRequest) =>
    listRecords({ scan: (input, signal) => send("scan", input, signal), clock }, request);

  return {
    usesSignal: true,
    maxOutcomeBytes: MAX_OUTCOME_BYTES,

    claim(request) {
      const { leaseMs, takeover } = request;
      // Most keys are new: write as if this one were. If it is not, the service returns the existing item.
      const isGuessed = takeover === undefined && !readFirst;
      const first = isGuessed ? toSnapshot(undefined, clock.now()) : undefined;
      return steps.claim({ ...request, leaseMs: leaseMs + clockSkewMs }, first);
    },

    async complete(request) {
      const extended = { ...request, retentionMs: request.retentionMs + clockSkewMs };
      const answer = await completePending(extended);
      return answer === true || steps.complete(extended, answer);
    },

    keepStep: steps.keepStep,
    renew: (request) => steps.renew({ ...request, leaseMs: request.leaseMs + clockSkewMs }),
    abandon: steps.abandon,
    read: steps.read,
    keepsHistory: true,
    forget: steps.forget,
    purge,
    list,
    listOrder: "none",
    undecided: (request) => undecidedByList(list, request),
    async settings() {
      const [description, timeToLive] = await Promise.all(
        [descriptions.table, descriptions.timeToLive].map(describeIfAllowed),
      );
      return judgeDurability(table, { table: description, timeToLive }, clockSkewMs);
    },
    async close() {
      isClosed = true;
    },
  };
}

function pause(tries: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, tries * CONFLICT_PAUSE_MS * (0.5 + Math.random())));
}

/** Part of core/sound-record.ts. A damaged record is never purged: without it, its work would look as if it had never run. */
const IS_SOUND =
  "(#state = :released OR (#state = :completed AND #keptUntil >= #completedAt) " +
  "OR (#state = :pending AND #keptUntil >= #leaseEndsAt))";
