/**
 * Records in one DynamoDB table, one item each. Every write is conditional on what it writes over, so the service decides
 * who wins. It has no clock: leases and retention are judged by the caller's, and end `clockSkewMs` later than asked, so
 * that callers whose clocks are no further apart never own a key both. Beyond that only the fence is safe.
 */
import { type Clock, systemClock } from "../core/clock.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { checkOptions, isClock, isText, wholeFrom } from "../core/policy.ts";
import { isExpired, stateOf, viewOf } from "../core/record.ts";
import type {
  CompleteRequest,
  ListPage,
  ListRequest,
  PurgeReport,
  Store,
  StoreRecord,
} from "../core/store.ts";
import { randomToken } from "../core/token.ts";
import { createSteps, type Found, type Written } from "./compare-and-set/steps.ts";
import {
  type Documents,
  type DynamodbClient,
  descriptionsOf,
  documentsOf,
  type Item,
  isClient,
} from "./dynamodb/documents.ts";
import { failure, isNotAllowed, overtakenBy } from "./dynamodb/failures.ts";
import { fromAttributes, fromItem, PURGE_AT, purgeAtOf, toItem } from "./dynamodb/item.ts";
import { isPurgedByTable, judge } from "./dynamodb/settings.ts";

export type { DynamodbClient } from "./dynamodb/documents.ts";

export interface DynamodbStoreOptions {
  /** A `DynamoDBDocument` or `DynamoDBDocumentClient` of @aws-sdk/lib-dynamodb. It stays its owner's. */
  readonly client: DynamodbClient;
  readonly table: string;
  /** Judges leases and retention; default: the system's. */
  readonly clock?: Clock;
  /**
   * How far apart the clocks of all who use the table may be; default 5,000. A crashed owner blocks its key that much
   * longer than its lease. All must be given the same.
   */
  readonly clockSkewMs?: number;
}

const CLOCK_SKEW_MS = 5_000;
/** An item has 409,600 bytes; the rest of a record takes less than 8,000. */
const MAX_OUTCOME_BYTES = 400_000;
const DELETES_AT_ONCE = 25;
/** How many pages of a scan, a mebibyte each, one page of a list may take. */
const MAX_SCANS = 20;

/** What to create the table with: `new CreateTableCommand(dynamodbTable("nevertwice"))`. Turn TTL on for `purgeAt`. */
export function dynamodbTable(name: string) {
  return {
    TableName: name,
    AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" as const }],
    KeySchema: [{ AttributeName: "id", KeyType: "HASH" as const }],
    BillingMode: "PAY_PER_REQUEST" as const,
  };
}

/** Needs its table: `dynamodbTable(name)` says how it is created. */
export function dynamodbStore(options: DynamodbStoreOptions): Store {
  checkOptions(options, { client: isClient, table: isText, clock: isClock, clockSkewMs: wholeFrom(0) });
  isClient("client", options.client);
  isText("table", options.table);
  const { client, table, clock = systemClock, clockSkewMs = CLOCK_SKEW_MS } = options;
  const documents = documentsOf(client);
  const descriptions = descriptionsOf(client, table);
  let isClosed = false;
  let isPurged = false;
  let scannedTo: Item | undefined;

  async function ask(name: keyof Documents, input: Item): Promise<Item> {
    // The client of the SDK goes on after its end, so we say it.
    if (isClosed) throw new NevertwiceError("unavailable", "the DynamoDB store is closed.");
    try {
      return await documents[name]({ TableName: table, ...input });
    } catch (error) {
      throw overtakenBy(error) === undefined ? failure(error, table) : error;
    }
  }

  function found(item: Item | undefined): Found {
    const now = clock.now();
    return item === undefined ? { record: undefined, mark: "", now } : { ...fromItem(item), now };
  }

  async function read(id: string): Promise<Found> {
    const { Item: item } = await ask("get", { Key: { id }, ConsistentRead: true });
    return found(item as Item | undefined);
  }

  /** A conditional write. True, or what stands there instead if the service tells. */
  async function wrote(name: "put" | "update" | "delete", input: Item): Promise<true | Found | undefined> {
    try {
      await ask(name, { ...input, ReturnValuesOnConditionCheckFailure: "ALL_OLD" });
      return true;
    } catch (error) {
      const overtaken = overtakenBy(error);
      if (overtaken === undefined) throw error;
      return overtaken.item && found(fromAttributes(overtaken.item));
    }
  }

  async function write(id: string, before: Found, record: Found["record"]): Promise<Written> {
    const condition =
      before.record === undefined
        ? { ConditionExpression: "attribute_not_exists(#id)", ...names("id") }
        : {
            ConditionExpression: "#mark = :before",
            ...names("mark"),
            ExpressionAttributeValues: { ":before": before.mark },
          };
    const mark = randomToken();
    const answer =
      record === undefined
        ? await wrote("delete", { Key: { id }, ...condition })
        : await wrote("put", { Item: toItem({ record, mark }, clockSkewMs), ...condition });
    // The SDK repeats a request whose reply was lost: then our own write is what stands in its way.
    if (answer === true || answer?.mark === mark) return { fence: record?.fence ?? 0 };
    return { overtakenBy: answer };
  }

  const steps = createSteps({ read, write });

  /** As `completeRecord` in core/record.ts has it for a pending record, without reading first. */
  async function completePending(request: CompleteRequest): Promise<true | Found | undefined> {
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
    const assigned = { ...set, [PURGE_AT]: purgeAtOf(keptUntil, clockSkewMs) };
    const assigning = Object.keys(assigned);
    return wrote("update", {
      Key: { id },
      UpdateExpression: `SET ${assigning.map((name) => `#${name} = :${name}`).join(", ")}`,
      ConditionExpression:
        "#token = :token AND #state = :pending AND (#hold = :true OR #keptUntil > :completedAt)",
      ...names("token", "hold", ...assigning),
      ExpressionAttributeValues: {
        ...Object.fromEntries(Object.entries(assigned).map(([name, value]) => [`:${name}`, value])),
        ":token": token,
        ":pending": "pending",
        ":true": true,
      },
    });
  }

  async function purge(limit: number): Promise<PurgeReport> {
    if (!isPurged && scannedTo === undefined)
      isPurged = isPurgedByTable(await described(descriptions.timeToLive));
    if (isPurged) return { removed: 0, more: false };
    const now = clock.now();
    const page = await ask("scan", {
      Limit: limit,
      ...(scannedTo && { ExclusiveStartKey: scannedTo }),
      FilterExpression: "#keptUntil <= :now AND NOT (#state = :pending AND #hold = :true)",
      ProjectionExpression: "#id, #mark",
      ...names("id", "mark", "keptUntil", "state", "hold"),
      ExpressionAttributeValues: { ":now": now, ":pending": "pending", ":true": true },
    });
    scannedTo = page.LastEvaluatedKey as Item | undefined;
    const items = page.Items as readonly Item[];
    let removed = 0;
    for (let from = 0; from < items.length; from += DELETES_AT_ONCE) {
      const removals = await Promise.all(items.slice(from, from + DELETES_AT_ONCE).map(remove));
      removed += removals.filter(Boolean).length;
    }
    // A scan costs what it looks at: it goes on at once only where it finds something, else when it is next asked.
    return { removed, more: scannedTo !== undefined && removed > 0 };
  }

  /** False if it was changed since it was looked at. */
  async function remove({ id, mark }: Item): Promise<boolean> {
    const condition = { ConditionExpression: "#mark = :mark", ...names("mark") };
    const values = { ExpressionAttributeValues: { ":mark": mark } };
    return (await wrote("delete", { Key: { id }, ...condition, ...values })) === true;
  }

  /** Undefined where we may not ask, or have nothing to ask with. */
  async function described(describe: () => Promise<Item>): Promise<Item | undefined> {
    try {
      return await describe();
    } catch (error) {
      if (isNevertwiceError(error, "driver-missing") || isNotAllowed(error)) return undefined;
      throw failure(error, table);
    }
  }

  async function list({ namespace, scope, state, limit, after }: ListRequest): Promise<ListPage> {
    const wanted = scope === undefined ? { namespace } : { namespace, scope };
    const records: StoreRecord[] = [];
    let start: Item | undefined = after === undefined ? undefined : { id: after };
    for (let scans = 0; scans < MAX_SCANS; scans++) {
      const page: Item = await ask("scan", {
        ConsistentRead: true,
        ...(start && { ExclusiveStartKey: start }),
        FilterExpression: Object.keys(wanted)
          .map((name) => `#${name} = :${name}`)
          .join(" AND "),
        ...names(...Object.keys(wanted)),
        ExpressionAttributeValues: Object.fromEntries(
          Object.entries(wanted).map(([name, value]) => [`:${name}`, value]),
        ),
      });
      const now = clock.now();
      for (const item of page.Items as readonly Item[]) {
        const { record } = fromItem(item);
        if (isExpired(record, now) || (state !== undefined && stateOf(record, now) !== state)) continue;
        if (records.length === limit) return { records, next: records.at(-1)?.id };
        records.push(viewOf(record, now));
      }
      start = page.LastEvaluatedKey as Item | undefined;
      if (start === undefined) return { records };
    }
    return { records, next: start?.id as string };
  }

  return {
    maxOutcomeBytes: MAX_OUTCOME_BYTES,

    claim(request) {
      const { leaseMs, takeover } = request;
      // Most keys are new: write as if this one were, and be told what stands there if it is not.
      const first = takeover === undefined ? found(undefined) : undefined;
      return steps.claim({ ...request, leaseMs: leaseMs + clockSkewMs }, first);
    },

    async complete(request) {
      const late = { ...request, retentionMs: request.retentionMs + clockSkewMs };
      const answer = await completePending(late);
      return answer === true || steps.complete(late, answer);
    },

    renew: (request) => steps.renew({ ...request, leaseMs: request.leaseMs + clockSkewMs }),
    abandon: steps.abandon,
    read: steps.read,
    forget: steps.forget,
    purge,
    list,
    async settings() {
      const [ofTable, timeToLive] = await Promise.all(
        [descriptions.table, descriptions.timeToLive].map(described),
      );
      return judge(table, { table: ofTable, timeToLive }, clockSkewMs);
    },
    async close() {
      isClosed = true;
    },
  };
}

/** Every name is escaped: DynamoDB reserves hundreds of words, `state` and `token` among them. */
function names(...attributes: readonly string[]): { ExpressionAttributeNames: Record<string, string> } {
  return { ExpressionAttributeNames: Object.fromEntries(attributes.map((name) => [`#${name}`, name])) };
}
