/**
 * Records in Cloudflare's Durable Objects, for guards in a Worker. Each key belongs to one of several objects, which keeps its
 * record in its own SQLite database and takes one step at a time. One step is one request to one object. Nothing is shared
 * between the requests of a Worker: every call makes its own stub, so a guard may be created once, at module level.
 */
import { sha256 } from "#platform";
import { toHex } from "../core/bytes.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { type Check, checkOptions, isText, wholeFrom } from "../core/option-checks.ts";
import { namespaceFrom, namespaceStart } from "../core/parts.ts";
import type {
  NamespacePage,
  NamespacesRequest,
  Store,
  StoreRecord,
  UndecidedReport,
  UndecidedRequest,
} from "../core/store.ts";
import { type BindingSource, bindingFinder } from "./binding-source.ts";
import { driverMessage } from "./driver-errors.ts";
import {
  type DurableObjectNamespace,
  type DurableObjectResponse,
  type DurableObjectStub,
  isNamespace,
  notBound,
} from "./durable-objects/bindings.ts";
import { judgeDurability } from "./durable-objects/durability.ts";
import {
  CALL_PATH,
  type CallMessage,
  decodeReply,
  type ObjectReply,
  onlyAnswer,
  WATCH_PATH,
} from "./durable-objects/messages.ts";
import { comparePlaces, type ListPlace, toPlace } from "./listing.ts";
import { type ListCall, type StoreCall, toClaimCall, toResult } from "./sqlite/calls.ts";
import { type ListPart, readListPage } from "./sqlite/list-page.ts";

export type {
  DurableObjectNamespace,
  DurableObjectState,
  DurableObjectStorage,
} from "./durable-objects/bindings.ts";
export { NevertwiceObject, type NevertwiceObjectOptions } from "./durable-objects/object.ts";

/** Options of `durableObjectStore`. */
export interface DurableObjectStoreOptions {
  /**
   * Over how many objects the keys are spread. An object does one thing at a time: Cloudflare names about 1,000
   * requests a second. The number cannot be changed later, and the objects refuse another one.
   * @default 16
   */
  readonly shards?: number;
  /**
   * The beginning of the objects' names. Stores with different names have different records.
   * @default "nevertwice"
   */
  readonly name?: string;
  /** Where new objects are placed, such as `weur`; default: near the Worker that uses them first. */
  readonly locationHint?: string;
}

const SHARDS = 16;
const NAME = "nevertwice";
const MAX_SHARDS = 1_024;
/** A row may have two million bytes; the other columns of a record take less than 8,000. */
const MAX_OUTCOME_BYTES = 1_900_000;
/** How many requests a page of a list may make: a request to a Worker may make only so many. */
const MAX_LIST_REQUESTS = 64;
/** How many rows an object looks at for one request of a list. */
const LIST_ROWS = 500;
/** How many records each object returns beyond its share of a page, since the newest ones are not spread evenly. */
const SPARE_RECORDS = 4;

const isShards: Check = (name, value) => {
  wholeFrom(1)(name, value);
  if ((value as number) > MAX_SHARDS)
    throw new NevertwiceError("options-invalid", `${name} is ${value}; it must be at most ${MAX_SHARDS}.`);
};

/**
 * Keeps records in Durable Objects. `namespace` is the binding of `NevertwiceObject`, or a function that returns it.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { env } from "cloudflare:workers";
 * import { createGuard } from "nevertwice";
 * import { durableObjectStore } from "nevertwice/stores/durable-objects";
 *
 * export { NevertwiceObject } from "nevertwice/stores/durable-objects";
 * export const guard = createGuard({ store: durableObjectStore(env.NEVERTWICE) });
 * ```
 */
export function durableObjectStore(
  namespace: BindingSource<DurableObjectNamespace>,
  options: DurableObjectStoreOptions = {},
): Store {
  checkOptions(options, { shards: isShards, name: isText, locationHint: isText });
  const { shards = SHARDS, name = NAME, locationHint } = options;
  const findNamespace = bindingFinder(namespace, isNamespace, notBound);
  const placement = locationHint === undefined ? undefined : { locationHint };
  let isClosed = false;

  /** A stub belongs to the request that made it, and is broken after an error: each call makes a new one. */
  function findStub(shard: number): DurableObjectStub {
    if (isClosed) throw new NevertwiceError("unavailable", "the store of Durable Objects is closed.");
    const objects = findNamespace();
    return objects.get(objects.idFromName(`${name}-${shard}`), placement);
  }

  async function post(shard: number, path: string, message: object): Promise<DurableObjectResponse> {
    const stub = findStub(shard);
    try {
      return await stub.fetch(`https://nevertwice${path}`, { method: "POST", body: JSON.stringify(message) });
    } catch (error) {
      throw toStoreError(error);
    }
  }

  async function send(message: CallMessage): Promise<ObjectReply> {
    const response = await post(message.shard, CALL_PATH, message);
    if (response.status !== 200) throw notOurs(response.status);
    return decodeReply(await response.text().catch((error) => Promise.reject(toStoreError(error))));
  }

  /** An object that is new wants the number of shards confirmed, which happens once in its life. */
  async function call(shard: number, storeCall: StoreCall): Promise<ObjectReply & { kind: "answered" }> {
    const message = { call: storeCall, shard, shards };
    const reply = await send(message);
    if (reply.kind === "answered") return reply;
    onlyAnswer((await call(0, CONFIRMATION)).reply);
    const confirmed = await send({ ...message, isConfirmed: true });
    if (confirmed.kind === "answered") return confirmed;
    throw new NevertwiceError("store-unsafe", `the object ${name}-${shard} does not remember its shards.`);
  }

  async function run<Value>(shard: number, storeCall: StoreCall): Promise<Value> {
    const { reply } = await call(shard, storeCall);
    return toResult(onlyAnswer(reply), reply.outcomes) as Value;
  }

  const runFor = <Value>(id: string, storeCall: StoreCall) => run<Value>(toShard(id, shards), storeCall);

  /** What every object answers to the same call. */
  const runForEach = <Value>(storeCall: StoreCall) =>
    Promise.all(Array.from({ length: shards }, (_, shard) => run<Value>(shard, storeCall)));

  /** The next records of every object. Those beyond a place where one of them stopped belong to the next part. */
  async function listPart(listCall: ListCall): Promise<ListPart> {
    const parts = await runForEach<ListPart>(listCall);
    const [end] = parts.flatMap((part) => part.end ?? []).sort(comparePlaces);
    const isReached = (record: StoreRecord) => end === undefined || comparePlaces(toPlace(record), end) <= 0;
    return {
      records: parts
        .flatMap(({ records }) => records.filter(isReached))
        .sort((a, b) => comparePlaces(toPlace(a), toPlace(b))),
      unreadable: parts.flatMap(({ unreadable }) => unreadable),
      end,
    };
  }

  async function undecided({ namespace: asked, limit }: UndecidedRequest): Promise<UndecidedReport> {
    const reports = await runForEach<UndecidedReport>(["undecided", asked, limit]);
    const count = reports.reduce((sum, report) => sum + report.count, 0);
    const oldest = Math.min(...reports.map((each) => each.oldestLapsedAt ?? Number.POSITIVE_INFINITY));
    return {
      count: Math.min(count, limit),
      isComplete: count <= limit && reports.every(({ isComplete }) => isComplete),
      ...(count > 0 && { oldestLapsedAt: oldest }),
    };
  }

  async function namespaces({ limit, after }: NamespacesRequest): Promise<NamespacePage> {
    const pages = await runForEach<NamespacePage>(["namespaces", limit, after]);
    const starts = new Set(pages.flatMap((page) => page.namespaces.map(namespaceStart)));
    // Every object sorts them like this, so whatever comes after the first `limit` of all is left for the next page.
    const sorted = [...starts].sort((a, b) => (utf8Hex(a) < utf8Hex(b) ? -1 : 1));
    const first = sorted.slice(0, limit);
    const isLast = sorted.length <= limit && pages.every(({ next }) => next === undefined);
    const names = first.flatMap((start) => namespaceFrom(start) ?? []);
    return isLast ? { namespaces: names } : { namespaces: names, next: first.at(-1) };
  }

  return {
    maxOutcomeBytes: MAX_OUTCOME_BYTES,
    // The objects purge themselves, by their alarms.
    collectsItself: true,
    purge: async () => ({ removed: 0, more: false }),

    claim: (request) => runFor(request.id, toClaimCall(request)),
    complete: ({ id, token, outcome, retentionMs }) =>
      runFor(id, ["complete", id, token, outcome, retentionMs]),
    abandon: ({ id, token, as }) => runFor(id, ["abandon", id, token, as]),
    renew: ({ id, token, leaseMs }) => runFor(id, ["renew", id, token, leaseMs]),
    keepStep: ({ id, token, outcome, ...step }) => runFor(id, ["keep-step", id, token, step.name, outcome]),
    read: (id) => runFor<StoreRecord | undefined>(id, ["read", id]),
    keepsHistory: true,
    forget: ({ id, fence, reopen = false }) => runFor(id, ["forget", id, fence, reopen]),
    list: (request) => {
      const { limit: _, after: __, signal: ___, ...filter } = request;
      const read = (wanted: number, after: ListPlace | undefined) =>
        listPart(["list", filter, Math.ceil(wanted / shards) + SPARE_RECORDS, after, LIST_ROWS]);
      return readListPage(request, read, Math.max(1, Math.floor(MAX_LIST_REQUESTS / shards)));
    },
    listOrder: "newest-first",
    undecided,
    namespaces,

    async watch({ id, wake }) {
      const response = await post(toShard(id, shards), WATCH_PATH, { id });
      const reader = response.body?.getReader();
      if (response.status !== 200 || reader === undefined) throw notOurs(response.status);
      let isOver = false;
      const end = () => {
        if (!isOver) wake();
        isOver = true;
      };
      // The body ends when the record is settled, when the object has held it long enough, or with the object.
      reader.read().then(end, end);
      return () => {
        isOver = true;
        reader.cancel().catch(() => undefined);
      };
    },

    async settings() {
      const { reply, bytes } = await call(0, CONFIRMATION);
      onlyAnswer(reply);
      return judgeDurability({ name, shards, bytes });
    },

    async close() {
      isClosed = true;
    },
  };
}

/** A call that changes nothing. The first object refuses it if it knows another number of shards. */
const CONFIRMATION: StoreCall = ["read", "nevertwice"];

const ENCODER = new TextEncoder();
const utf8Hex = (text: string) => toHex(ENCODER.encode(text));

const DIGEST = /^[0-9a-f]{64}$/;

/** An id is a digest, so its first digits are as good as random. */
function toShard(id: string, shards: number): number {
  const digest = DIGEST.test(id) ? id : sha256(id, "hex");
  return Number.parseInt(digest.slice(0, 8), 16) % shards;
}

/** A response that `NevertwiceObject` does not give. */
function notOurs(status: number): NevertwiceError {
  if (status === 429) return new NevertwiceError("unavailable", "the object has too many waiters.");
  return new NevertwiceError(
    "store-unsafe",
    `the object answered with status ${status}: the binding must be that of the class NevertwiceObject, or of one that extends it.`,
  );
}

/**
 * Errors of the runtime: the object is overloaded, was reset or moved, or cannot be reached. Whether the step was taken is
 * not known, so it is repeated with the same token.
 */
function toStoreError(error: unknown): unknown {
  if (isNevertwiceError(error)) return error;
  return new NevertwiceError("unavailable", `the Durable Object did not answer (${driverMessage(error)}).`, {
    cause: error,
  });
}
