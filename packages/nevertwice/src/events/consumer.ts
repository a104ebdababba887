/**
 * Handles one delivery of a message: the work is done now, was done before, or another delivery is doing it. An adapter passes
 * the message to a consumer and tells its broker the verdict. The consumer decides about a message; adapters decide nothing.
 */
import { backoffMs } from "../core/backoff.ts";
import { BATCH_CHECKS, type BatchOptions, isArrayOfRequests, settleEach } from "../core/batch.ts";
import type { DatabaseHandle } from "../core/database-handle.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { compositeKey } from "../core/key.ts";
import { checkOptions } from "../core/option-checks.ts";
import type { PolicyOptions } from "../core/policy.ts";
import type { RunRequest } from "../core/request.ts";
import type { RunResult } from "../core/result.ts";
import type { WaitUntil } from "../core/wait-until.ts";
import {
  type AnyConsumerOptions,
  type ConsumerGuard,
  type ConsumerOptions,
  type ConsumerSettings,
  consumerSettings,
  type TransactionConsumerOptions,
} from "./consumer-options.ts";
import type { Delivery } from "./delivery.ts";
import { type DeliveryProgress, isPermanent, report, transactionTries, tryAll } from "./delivery-tries.ts";

/** What an adapter passes along with a message. */
export interface Handling {
  /** Called after each renewal of the claim, so that the adapter can tell the broker that work is in progress. */
  readonly onRenewed?: (() => unknown) | undefined;
  /** The longest lease for this delivery, for a process with a limited run time. */
  readonly maxLeaseMs?: number | undefined;
  /** The platform's `waitUntil` for the request that brought the message, if it has one. */
  readonly waitUntil?: WaitUntil | undefined;
}

export interface BatchHandling<Message> extends BatchOptions, Pick<Handling, "maxLeaseMs" | "waitUntil"> {
  readonly onRenewed?: ((message: Message) => unknown) | undefined;
}

/** Processes messages, each once. An adapter of a broker calls `handle` and passes the verdict on. */
export interface Consumer<Message, T = unknown> {
  /** The name of the consumer, which is part of the scope of its records. */
  readonly name: string;
  /**
   * While work runs, `onRenewed` is called at least this often, so a broker must not deliver the message again before: half of
   * `leaseMs`, or `transactionMs` with a transaction, whose claim is not renewed.
   */
  readonly renewedWithinMs: number;
  /** Never rejects: every result is a value, including what the work threw. */
  handle(message: Message, handling?: Handling): Promise<Delivery<T>>;
  /** Returns one delivery for each message, in the same order. Messages with the same key are handled one after the other. */
  handleBatch(messages: readonly Message[], options?: BatchHandling<Message>): Promise<Delivery<T>[]>;
}

/**
 * Creates a consumer whose work writes in a transaction of `options.transaction` that also completes the record of the message: both commit, or
 * neither does, and the message is acknowledged after that. Throws `options-invalid` on bad options.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { consumer } from "nevertwice/events";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * const billing = consumer(guard, {
 *   name: "billing",
 *   key: (message: { id: string }) => message.id,
 *   work: async (message) => `invoice for ${message.id}`,
 * });
 * const { status, verdict } = await billing.handle({ id: "order-17" });
 * console.log(status, verdict); // done acknowledge
 * ```
 */
export function consumer<Message, T, Handle extends DatabaseHandle>(
  guard: ConsumerGuard,
  options: TransactionConsumerOptions<Message, T, Handle>,
): Consumer<Message, T>;
/** Creates a consumer: each message that its `handle` gets is processed once. */
export function consumer<Message, T = unknown>(
  guard: ConsumerGuard,
  options: ConsumerOptions<Message, T>,
): Consumer<Message, T>;
export function consumer<Message, T>(
  guard: ConsumerGuard,
  options: AnyConsumerOptions<Message, T>,
): Consumer<Message, T> {
  return createConsumer(guard, options);
}

/** A consumer of either kind. */
export function createConsumer<Message, T>(
  guard: ConsumerGuard,
  options: AnyConsumerOptions<Message, T>,
): Consumer<Message, T> {
  const settings = consumerSettings(guard, options);

  async function handle(message: Message, handling: Handling = {}): Promise<Delivery<T>> {
    const request = toRequest(settings, message, handling);
    if ("refused" in request) return reported(settings, undefined, refused(request.refused));
    return handleRequest(message, request);
  }

  const { work, inTransaction } = settings;

  function run(message: Message, request: RunRequest, progress: DeliveryProgress): Promise<RunResult<T>> {
    if (inTransaction !== undefined)
      return inTransaction.door.tryRun(request, transactionTries(settings, inTransaction, message, progress));
    return settings.guard.tryRun<T>(request, (attempt) =>
      tryAll(settings, attempt, progress, async (tried) => work(message, attempt, tried)),
    );
  }

  async function handleRequest(message: Message, request: RunRequest): Promise<Delivery<T>> {
    const progress: DeliveryProgress = { tries: 0, attempts: 0, isPermanentError: false };
    let delivery: Delivery<T>;
    try {
      const result = await run(message, request, progress);
      delivery = toDelivery(settings, result, progress);
    } catch (error) {
      delivery = failureDelivery(settings, error, progress);
    }
    return reported(settings, request, delivery);
  }

  async function handleBatch(
    messages: readonly Message[],
    { onRenewed, maxLeaseMs, waitUntil, ...batch }: BatchHandling<Message> = {},
  ): Promise<Delivery<T>[]> {
    isArrayOfRequests("the batch", messages);
    checkOptions(batch, BATCH_CHECKS);
    // Of two messages with the same key, the second waits, so that it finds the first one completed rather than pending.
    const last = new Map<string, Promise<unknown>>();
    const ends = await settleEach(
      messages,
      (message) => {
        const renewed = onRenewed && (() => onRenewed(message));
        const request = toRequest(settings, message, { onRenewed: renewed, maxLeaseMs, waitUntil });
        if ("refused" in request)
          return Promise.resolve(reported(settings, undefined, refused<T>(request.refused)));
        const sameKey = JSON.stringify([request.scope, String(request.key)]);
        const previous = last.get(sameKey) ?? Promise.resolve();
        const delivery = previous.then(() => handleRequest(message, request));
        last.set(sameKey, delivery);
        return delivery;
      },
      batch.concurrency,
    );
    return ends.map((end) =>
      end.status === "fulfilled" ? end.value : reported(settings, undefined, refused<T>(end.reason)),
    );
  }

  return {
    name: options.name,
    get renewedWithinMs() {
      const { leaseMs, transactionMs } = settings.guard.policy;
      return inTransaction === undefined ? Math.ceil(leaseMs / 2) : transactionMs;
    },
    handle,
    handleBatch,
  };
}

type RequestResult = RunRequest | { readonly refused: unknown };

function toRequest<Message, T>(
  settings: ConsumerSettings<Message, T>,
  message: Message,
  { onRenewed, maxLeaseMs, waitUntil }: Handling,
): RequestResult {
  const { name, operation = name, key, scope, ownScope, fingerprint } = settings;
  try {
    const request = {
      operation,
      scope: scope === undefined ? ownScope : consumerScope(name, requireTenant(scope(message))),
      key: key(message) as string,
      fingerprint: fingerprint?.(message),
      onRenewed,
      waitUntil,
    };
    return maxLeaseMs === undefined ? request : { ...request, ...boundedLease(settings, maxLeaseMs) };
  } catch (error) {
    return { refused: error };
  }
}

function boundedLease<Message, T>(
  { guard }: ConsumerSettings<Message, T>,
  maxLeaseMs: number,
): PolicyOptions {
  const { leaseMs, transactionMs } = guard.policy;
  return {
    leaseMs: bounded(leaseMs, maxLeaseMs, MIN_LEASE_MS),
    // In a transaction the lease is set by its time.
    transactionMs: bounded(transactionMs, maxLeaseMs, MIN_TRANSACTION_MS),
  };
}

const MIN_LEASE_MS = 10;
const MIN_TRANSACTION_MS = 100;

/** The remaining run time of a process may be fractional or negative. That is no reason to refuse a message. */
function bounded(ms: number, maxMs: number, minMs: number): number {
  return maxMs < ms ? Math.max(minMs, Math.floor(maxMs)) : ms;
}

/**
 * The consumer's name is part of the scope, whatever the operation is called: each consumer has its own record. Checked as a
 * whole: with the consumer's name and the escaped characters it is longer than the tenant's name.
 */
function consumerScope(name: string, tenant: string): string {
  return checkedPart(compositeKey(name, tenant).text, SCOPE, "request-invalid");
}

const SCOPE = "what names the tenant of the message (scope)";

/** Throws `scope-missing` for an empty name. Otherwise all messages without a tenant would share one scope. */
function requireTenant(scope: string): string {
  if (typeof scope === "string" && scope !== "") return checkedPart(scope, SCOPE, "request-invalid");
  throw new NevertwiceError("scope-missing", "scope returned no tenant: return the tenant of each message.");
}

function toDelivery<Message, T>(
  settings: ConsumerSettings<Message, T>,
  result: RunResult<T>,
  { tries, attempts }: DeliveryProgress,
): Delivery<T> {
  switch (result.status) {
    case "ran": {
      const { value, recorded } = result;
      return { verdict: "acknowledge", status: "done", value, recorded, tries };
    }
    case "replayed":
      return { verdict: "acknowledge", status: "done-before", value: result.value };
    case "already-done":
    case "not-kept":
      return { verdict: "acknowledge", status: "done-before" };
  }
  const later = { verdict: "later", afterMs: laterMs(settings, Math.max(1, attempts)) } as const;
  switch (result.status) {
    case "pending":
      return { ...later, status: "pending" };
    case "conflict": {
      const { state } = result;
      return state === "completed"
        ? { verdict: "acknowledge", status: "conflict", state }
        : { ...later, status: "conflict", state };
    }
    case "unknown":
      return { ...later, status: "unknown", fence: result.fence };
    case "unavailable":
      return { ...later, status: "unavailable", error: result.error };
    case "lease-lost":
      return { ...later, status: "lease-lost" };
  }
}

function failureDelivery<Message, T>(
  settings: ConsumerSettings<Message, T>,
  error: unknown,
  { tries, attempts, isPermanentError }: DeliveryProgress,
): Delivery<T> {
  // The work did not run: the request is invalid, or an earlier failure is remembered.
  if (tries === 0) {
    return isNevertwiceError(error) ? refused(error) : { status: "failed-before", verdict: "reject", error };
  }
  const { maxAttempts = Number.POSITIVE_INFINITY } = settings;
  const failed = { status: "failed", error, tries, attempts } as const;
  return attempts >= maxAttempts || isPermanentError || isPermanent(settings, error)
    ? { ...failed, verdict: "reject" }
    : { ...failed, verdict: "later", afterMs: laterMs(settings, Math.max(1, attempts)) };
}

function refused<T>(error: unknown): Delivery<T> {
  return { status: "refused", verdict: "reject", error };
}

function laterMs<Message, T>({ later }: ConsumerSettings<Message, T>, attempts: number): number {
  return backoffMs(later, attempts, 0);
}

function reported<Message, T>(
  settings: ConsumerSettings<Message, T>,
  request: RunRequest | undefined,
  delivery: Delivery<T>,
): Delivery<T> {
  if (settings.onEvent === undefined) return delivery;
  // A refused request has no valid key, and so no hash of one.
  const keyHash =
    request === undefined || delivery.status === "refused" ? undefined : hashKey(settings, request);
  report(settings, {
    kind: delivery.status === "conflict" ? "alarm" : delivery.status,
    consumer: settings.name,
    ...(keyHash === undefined ? {} : { keyHash }),
    verdict: delivery.verdict,
    ...("error" in delivery ? { error: delivery.error } : {}),
  });
  return delivery;
}

function hashKey<Message, T>(
  { guard }: ConsumerSettings<Message, T>,
  { operation, scope, key }: RunRequest,
): string {
  return guard.about({ operation, scope, key }).keyHash;
}
