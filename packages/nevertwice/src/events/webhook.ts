/** Signed webhooks, each processed once: the signature is verified first, before the store is read or written. */

import { requireGuard } from "../core/argument-checks.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import type { DatabaseHandle } from "../core/database-handle.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import type { Key } from "../core/key.ts";
import { harmless } from "../core/observer.ts";
import { type Check, isClock, isFunction, isText, wholeFrom } from "../core/option-checks.ts";
import { isPlainObject } from "../core/plain-object.ts";
import { createConsumer } from "./consumer.ts";
import type {
  AnyConsumerOptions,
  ConsumerGuard,
  ConsumerOptions,
  TransactionConsumerOptions,
} from "./consumer-options.ts";
import {
  ACCEPTED,
  ANSWER_CHECKS,
  type AnswerOptions,
  type HttpAnswer,
  refusal,
  toHttpAnswer,
} from "./http-answer.ts";
import { createReceiver, type Received, type Receiver } from "./receiver.ts";
import { retentionPast } from "./senders.ts";
import { checkScheme, type WebhookScheme } from "./webhook/scheme.ts";
import { createVerifier, idKey, invalid, readId, type Secret, type Verified } from "./webhook/verifier.ts";

export type { HttpAnswer } from "./http-answer.ts";
export type { Incoming, IncomingHeaders, Received, Receiver } from "./receiver.ts";
export type { Field, SecretForm, SignatureField, WebhookScheme } from "./webhook/scheme.ts";
export {
  github,
  shopify,
  slack,
  square,
  standardWebhooks,
  standardWebhooksEd25519,
  stripe,
  svix,
  twilio,
} from "./webhook/schemes.ts";
export type { Secret } from "./webhook/verifier.ts";

/** A webhook whose signature was checked, as the work gets it. */
export interface Webhook extends Received, Verified {}

/** Options of `webhooks`: how the sender signs, what is done with a webhook, and how it is answered. */
export interface WebhookOptions<T> extends Omit<ConsumerOptions<Webhook, T>, "key">, AnswerOptions {
  /** How the sender signs its requests. */
  readonly scheme: WebhookScheme;
  /** The secret shared with the sender. Give several while a secret is being rotated; any of them may match. */
  readonly secret?: Secret | readonly Secret[] | undefined;
  /** Instead of a secret, if no scheme describes the signature: returns whether the request comes from the sender. */
  readonly verify?: ((received: Received) => boolean | PromiseLike<boolean>) | undefined;
  /** The sender's id for the event. Default: where the scheme says it is. */
  readonly key?: ((webhook: Webhook) => string | Key | undefined) | undefined;
  /** How far the timestamp may be from the current time. Default: the scheme's tolerance. */
  readonly toleranceMs?: number | undefined;
  /**
   * The largest body that is read, in bytes. A larger one is answered with 413.
   * @default 1_048_576 (1 MiB)
   */
  readonly maxBodyBytes?: number | undefined;
  /** The URL that the sender calls, if the sender signs it and a proxy changes it. Default: the request's URL. */
  readonly url?: string | undefined;
  /** The response for a message that is done, now or before. Default: 204 without a body. */
  readonly respond?: ((value: T) => Partial<HttpAnswer>) | undefined;
  /**
   * The clock that timestamps are compared with.
   * @default the system clock
   */
  readonly clock?: Clock | undefined;
}

/** The options of a webhook whose work commits in one transaction with the record of its event (see `consumer`). */
export interface TransactionWebhookOptions<T, Handle extends DatabaseHandle>
  extends Omit<WebhookOptions<T>, "work" | "transaction">,
    Pick<TransactionConsumerOptions<Webhook, T, Handle>, "transaction" | "work"> {}

/** Four days: senders that follow Standard Webhooks retry for more than three. */
export const WEBHOOK_DEFAULTS = { retentionMs: 345_600_000, maxBodyBytes: 1_048_576 } as const;

const WEBHOOK_CHECKS: Readonly<Record<string, Check>> = {
  ...ANSWER_CHECKS,
  scheme: checkScheme,
  verify: isFunction,
  key: isFunction,
  toleranceMs: wholeFrom(0),
  maxBodyBytes: wholeFrom(0),
  url: isText,
  respond: isFunction,
  clock: isClock,
};

/**
 * The same for work that writes in a transaction of `options.transaction`, and gets it as its first argument.
 * @throws `options-invalid`
 */
export function webhook<T, Handle extends DatabaseHandle>(
  guard: ConsumerGuard,
  options: TransactionWebhookOptions<T, Handle>,
): Receiver;
/**
 * Receives webhooks: checks the signature, and processes each once. Your router decides which method and path it serves.
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { stripe, webhook } from "nevertwice/events/webhook";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * export const receive = webhook(guard, {
 *   name: "payments",
 *   scheme: stripe,
 *   secret: "whsec_of-your-endpoint",
 *   work: async (event) => console.log(event.json()),
 * }); // a Request in, a Response out
 * ```
 */
export function webhook<T = unknown>(guard: ConsumerGuard, options: WebhookOptions<T>): Receiver;
export function webhook<T>(
  guard: ConsumerGuard,
  options: Omit<WebhookOptions<T>, "work" | "transaction"> &
    Pick<AnyConsumerOptions<Webhook, T>, "work" | "transaction">,
): Receiver {
  requireGuard(guard, "webhook(guard, { name, scheme, secret, work })");
  checkWebhookOptions(options);
  const {
    scheme,
    secret,
    verify: isFromSender,
    key = (verified: Webhook) => idKey(scheme, verified),
    toleranceMs,
    maxBodyBytes = WEBHOOK_DEFAULTS.maxBodyBytes,
    url,
    respond,
    clock = systemClock,
    onRejected,
    sender = scheme.sender,
    retentionMs = retentionPast(WEBHOOK_DEFAULTS.retentionMs, { ...options, sender }),
    ...rest
  } = options;
  const inner = createConsumer<Webhook, T>(guard, { ...rest, key, sender, retentionMs });
  const verifier = chooseVerifier(scheme, secret, isFromSender, {
    clock,
    ...(toleranceMs === undefined ? {} : { toleranceMs }),
  });

  return createReceiver(maxBodyBytes, async (request, platform) => {
    const received: Received = url === undefined ? request : { ...request, url };
    let verified: Verified;
    try {
      verified = await verifier(received);
    } catch (error) {
      if (!isNevertwiceError(error, "signature-invalid")) throw error;
      // A request that is not from the sender causes no read and no write in the store.
      harmless(() => options.onEvent?.({ kind: "refused", consumer: inner.name, verdict: "reject", error }));
      return refusal(error);
    }
    const delivery = await inner.handle({ ...received, ...verified }, platform);
    if (respond === undefined || !("value" in delivery)) return toHttpAnswer(delivery, { onRejected });
    const { value } = delivery;
    const answer = () => ({ ...ACCEPTED, status: 200, ...respond(value as T) });
    // The stored value may come from an operator and be unknown to `respond`. The message is done all the same.
    return delivery.status === "done" ? answer() : (readAnswer(harmless(answer)) ?? ACCEPTED);
  });
}

function readAnswer(answer: unknown): HttpAnswer | undefined {
  const { status, headers, body } = (answer ?? {}) as { readonly [Name in keyof HttpAnswer]?: unknown };
  const hasBody = typeof body === "string" || body instanceof Uint8Array;
  return typeof status === "number" && isPlainObject(headers) && hasBody ? (answer as HttpAnswer) : undefined;
}

type Verifier = (received: Received) => Verified | Promise<Verified>;

function chooseVerifier(
  scheme: WebhookScheme,
  secret: Secret | readonly Secret[] | undefined,
  isFromSender: WebhookOptions<unknown>["verify"],
  settings: Parameters<typeof createVerifier>[2],
): Verifier {
  if (isFromSender === undefined) {
    const secrets = (Array.isArray(secret) ? secret : [secret]) as readonly Secret[];
    return createVerifier(scheme, secrets, settings);
  }
  return async (received) => {
    if ((await isFromSender(received)) !== true) throw invalid("the request does not come from the sender.");
    return { id: readId(scheme, received), sentAtMs: undefined };
  };
}

function checkWebhookOptions<T>(options: Omit<WebhookOptions<T>, "work" | "transaction">): void {
  const given: Readonly<Record<string, unknown>> = { ...options };
  for (const [name, check] of Object.entries(WEBHOOK_CHECKS)) {
    if (given[name] !== undefined) check(name, given[name]);
  }
  if (options.scheme === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      "scheme is missing: webhook(guard, { name, scheme: standardWebhooks, secret, work }).",
    );
  }
  const { secret, verify } = options;
  const hasSecret = secret !== undefined && (!Array.isArray(secret) || secret.length > 0);
  if (hasSecret === (verify !== undefined))
    throw new NevertwiceError("options-invalid", "secret and verify: give exactly one of them.");
}
