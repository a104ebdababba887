/**
 * One delivery of a message is done before, done now, or being done by another. Whoever delivers asks a consumer, and
 * tells its broker the verdict; what is decided about a message is decided here, and not in the adapters.
 */
import type { Attempt } from "../core/attempt.ts";
import { backoffMs, pause } from "../core/backoff.ts";
import { systemTimer } from "../core/clock.ts";
import { BATCH_CHECKS, type BatchOptions, isList, settleEach } from "../core/each.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { compositeKey } from "../core/key.ts";
import { harmless } from "../core/observer.ts";
import { checkOptions } from "../core/policy.ts";
import type { RunRequest } from "../core/request.ts";
import type { RunResult } from "../core/result.ts";
import type { ConsumerEvent } from "./consumer-event.ts";
import {
  type ConsumerGuard,
  type ConsumerOptions,
  type ConsumerSettings,
  settingsOf,
} from "./consumer-settings.ts";
import type { Delivery } from "./delivery.ts";

/** What an adapter hands in with a message. */
export interface Handling {
  /** Told after each renewal of the claim: the broker can be told that the message is still worked on. */
  readonly onRenewed?: (() => unknown) | undefined;
  /** No lease of this delivery is longer, where a process is told how long it may live. */
  readonly maxLeaseMs?: number | undefined;
}

export interface BatchHandling<Message> extends BatchOptions {
  readonly onRenewed?: ((message: Message) => unknown) | undefined;
  readonly maxLeaseMs?: number | undefined;
}

export interface Consumer<Message, T = unknown> {
  readonly name: string;
  /** Never rejects: every ending is a value, what the work threw included. */
  handle(message: Message, handling?: Handling): Promise<Delivery<T>>;
  /** An answer for each message, in their order. Messages with one key are handled one after the other. */
  handleBatch(messages: readonly Message[], options?: BatchHandling<Message>): Promise<Delivery<T>[]>;
}

/** Fails with `options-invalid` at once on bad options. */
export function consumer<Message, T = unknown>(
  guard: ConsumerGuard,
  options: ConsumerOptions<Message, T>,
): Consumer<Message, T> {
  const settings = settingsOf(guard, options);

  async function handle(message: Message, { onRenewed, maxLeaseMs }: Handling = {}): Promise<Delivery<T>> {
    const request = requestOf(settings, message, maxLeaseMs);
    if ("refused" in request) return told(settings, undefined, refused(request.refused));
    return handleRequest(message, { ...request, onRenewed });
  }

  async function handleRequest(message: Message, request: RunRequest): Promise<Delivery<T>> {
    const course: Course = { tries: 0, attempts: 0, isHopeless: false };
    let delivery: Delivery<T>;
    try {
      const result = await guard.tryRun<T>(request, (attempt) => tryAll(settings, message, attempt, course));
      delivery = deliveryOf(settings, result, course);
    } catch (error) {
      delivery = failureOf(settings, error, course);
    }
    return told(settings, request, delivery);
  }

  async function handleBatch(
    messages: readonly Message[],
    { onRenewed, maxLeaseMs, ...batch }: BatchHandling<Message> = {},
  ): Promise<Delivery<T>[]> {
    isList("the batch", messages);
    checkOptions(batch, BATCH_CHECKS);
    // Of messages with one key the second is done before once the first is, and not in its way.
    const last = new Map<string, Promise<unknown>>();
    const ends = await settleEach(
      messages,
      (message) => {
        const request = requestOf(settings, message, maxLeaseMs);
        if ("refused" in request)
          return Promise.resolve(told(settings, undefined, refused<T>(request.refused)));
        const asked = { ...request, onRenewed: onRenewed && (() => onRenewed(message)) };
        const same = JSON.stringify([request.scope, String(request.key)]);
        const before = last.get(same) ?? Promise.resolve();
        const answer = before.then(() => handleRequest(message, asked));
        last.set(same, answer);
        return answer;
      },
      batch.concurrency,
    );
    return ends.map((end) =>
      end.status === "fulfilled" ? end.value : told(settings, undefined, refused<T>(end.reason)),
    );
  }

  return { name: options.name, handle, handleBatch };
}

/** What one delivery has come to so far. */
interface Course {
  tries: number;
  /** The number of the attempt: what the store counts over all deliveries. */
  attempts: number;
  /** Whether the last error is permanent, as the work threw it: one that is remembered comes back as a copy. */
  isHopeless: boolean;
}

type Asked = RunRequest | { readonly refused: unknown };

function requestOf<Message, T>(
  settings: ConsumerSettings<Message, T>,
  message: Message,
  maxLeaseMs = Number.POSITIVE_INFINITY,
): Asked {
  const { guard, name, operation = name, key, scope, fingerprint, policies } = settings;
  try {
    return {
      ...policies,
      leaseMs: boundedLease(policies.leaseMs ?? guard.policy.leaseMs, maxLeaseMs),
      operation,
      // The consumer's name is in the scope whatever the operation is called: each consumer has its own record.
      scope: scopeOf(name, scope === undefined ? [] : [given(scope(message))]),
      key: key(message) as string,
      fingerprint: fingerprint?.(message),
    };
  } catch (error) {
    return { refused: error };
  }
}

const SHORTEST_LEASE_MS = 10;

/** What is left of a process's life may be no whole number, or no time at all: that is no reason to refuse a message. */
function boundedLease(leaseMs: number, maxLeaseMs: number): number {
  return maxLeaseMs < leaseMs ? Math.max(SHORTEST_LEASE_MS, Math.floor(maxLeaseMs)) : leaseMs;
}

/** Longer than the tenant's own name: the consumer's name is in it, and characters are escaped. */
function scopeOf(name: string, tenant: readonly string[]): string {
  return checkedPart(compositeKey(name, ...tenant).text, SCOPE, "request-invalid");
}

const SCOPE = "what names the tenant of the message (scope)";

/** A tenant that nobody named shares no bucket with others whom nobody named. */
function given(scope: string): string {
  if (typeof scope === "string" && scope !== "") return checkedPart(scope, SCOPE, "request-invalid");
  throw new NevertwiceError("scope-missing", "scope answered nothing: name the tenant of each message.");
}

/** Tries the work until it succeeds, may not be tried again, or the claim is lost. */
async function tryAll<Message, T>(
  settings: ConsumerSettings<Message, T>,
  message: Message,
  attempt: Attempt,
  course: Course,
): Promise<T> {
  const { work, backoff } = settings;
  course.attempts = attempt.number;
  for (;;) {
    course.tries++;
    try {
      return await work(message, attempt, { number: course.tries });
    } catch (error) {
      const { signal } = attempt;
      course.isHopeless = isPermanent(settings, error);
      if (course.tries > backoff.max || signal.aborted || course.isHopeless) throw error;
      const afterMs = backoffMs(backoff, course.tries, Math.random());
      tell(settings, { kind: "retrying", consumer: settings.name, tries: course.tries, afterMs, error });
      await pause(systemTimer, afterMs, signal);
      if (signal.aborted) throw error;
    }
  }
}

function deliveryOf<Message, T>(
  settings: ConsumerSettings<Message, T>,
  result: RunResult<T>,
  { tries, attempts }: Course,
): Delivery<T> {
  const later = { verdict: "later", afterMs: laterMs(settings, Math.max(1, attempts)) } as const;
  const acknowledge = { verdict: "acknowledge" } as const;
  switch (result.status) {
    case "ran":
      return { ...acknowledge, status: "done", value: result.value, recorded: result.recorded, tries };
    case "replayed":
      return { ...acknowledge, status: "done-before", value: result.value };
    case "already-done":
    case "not-kept":
      return { ...acknowledge, status: "done-before" };
    case "pending":
      return { ...later, status: "pending" };
    case "conflict": {
      const { state } = result;
      return { ...(state === "completed" ? acknowledge : later), status: "conflict", state };
    }
    case "unknown":
      return { ...later, status: "unknown", fence: result.fence };
    case "unavailable":
      return { ...later, status: "unavailable", error: result.error };
    case "lease-lost":
      return { ...later, status: "lease-lost" };
  }
}

function failureOf<Message, T>(
  settings: ConsumerSettings<Message, T>,
  error: unknown,
  { tries, attempts, isHopeless }: Course,
): Delivery<T> {
  // The work did not run: the request is itself wrong, or an earlier failure was remembered.
  if (tries === 0) {
    return isNevertwiceError(error) ? refused(error) : { status: "failed-before", verdict: "reject", error };
  }
  const { maxAttempts = Number.POSITIVE_INFINITY } = settings;
  const failed = { status: "failed", error, tries, attempts } as const;
  return attempts >= maxAttempts || isHopeless || isPermanent(settings, error)
    ? { ...failed, verdict: "reject" }
    : { ...failed, verdict: "later", afterMs: laterMs(settings, Math.max(1, attempts)) };
}

function refused<T>(error: unknown): Delivery<T> {
  return { status: "refused", verdict: "reject", error };
}

function laterMs<Message, T>({ later }: ConsumerSettings<Message, T>, attempts: number): number {
  return backoffMs(later, attempts, 0);
}

/** Whoever should have judged the error could not: it is tried again, as any other. */
function isPermanent<Message, T>(settings: ConsumerSettings<Message, T>, error: unknown): boolean {
  return harmless(() => settings.isPermanent?.(error)) === true;
}

function told<Message, T>(
  settings: ConsumerSettings<Message, T>,
  request: RunRequest | undefined,
  delivery: Delivery<T>,
): Delivery<T> {
  if (settings.onEvent === undefined) return delivery;
  // A refused request has no name that could be told.
  const keyHash =
    request === undefined || delivery.status === "refused" ? undefined : hashOf(settings, request);
  tell(settings, {
    kind: delivery.status === "conflict" ? "alarm" : delivery.status,
    consumer: settings.name,
    ...(keyHash === undefined ? {} : { keyHash }),
    verdict: delivery.verdict,
    ...("error" in delivery ? { error: delivery.error } : {}),
  });
  return delivery;
}

function hashOf<Message, T>(
  { guard }: ConsumerSettings<Message, T>,
  { operation, scope, key }: RunRequest,
): string {
  return guard.about({ operation, scope, key }).keyHash;
}

function tell<Message, T>({ onEvent }: ConsumerSettings<Message, T>, event: ConsumerEvent): void {
  if (onEvent !== undefined) harmless(() => onEvent(event));
}
