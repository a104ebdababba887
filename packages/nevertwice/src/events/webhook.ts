/** Webhooks that are signed by their sender and processed once: verified first, then looked up, then done. */
import { type Clock, systemClock } from "../core/clock.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import type { Key } from "../core/key.ts";
import { harmless } from "../core/observer.ts";
import { type Check, isClock, isFunction, isText, wholeFrom } from "../core/policy.ts";
import { consumer } from "./consumer.ts";
import type { ConsumerGuard, ConsumerOptions } from "./consumer-settings.ts";
import {
  ACCEPTED,
  ANSWER_CHECKS,
  type AnswerOptions,
  answerOf,
  type HttpAnswer,
  refusal,
} from "./http-answer.ts";
import { createReceiver, type Received, type Receiver } from "./incoming.ts";
import { outlasting } from "./senders.ts";
import { checkScheme, type WebhookScheme } from "./webhook/scheme.ts";
import { createVerifier, idKey, idOf, invalid, type Secret, type Verified } from "./webhook/verify.ts";

export type { HttpAnswer } from "./http-answer.ts";
export type { Incoming, IncomingHeaders, Received, Receiver } from "./incoming.ts";
export type { Field, SecretForm, SignatureField, WebhookScheme } from "./webhook/scheme.ts";
export {
  github,
  shopify,
  slack,
  square,
  standardWebhooks,
  standardWebhooksEd25519,
  stripe,
  twilio,
} from "./webhook/schemes.ts";
export type { Secret } from "./webhook/verify.ts";

export interface Webhook extends Received, Verified {}

export interface WebhookOptions<T> extends Omit<ConsumerOptions<Webhook, T>, "key">, AnswerOptions {
  /** How the sender signs. */
  readonly scheme: WebhookScheme;
  /** What was agreed on with the sender; several while it is being changed, each of which counts. */
  readonly secret?: Secret | readonly Secret[] | undefined;
  /** Instead of a secret, for what no scheme describes: whether the request is the sender's own. */
  readonly verify?: ((received: Received) => boolean | PromiseLike<boolean>) | undefined;
  /** The sender's name for the event; default: where the scheme says that it is. */
  readonly key?: ((webhook: Webhook) => string | Key | undefined) | undefined;
  /** How far from now a timestamp may be; default: as the scheme says. */
  readonly toleranceMs?: number | undefined;
  readonly maxBodyBytes?: number | undefined;
  /** The address that the sender was given, where it is signed and a proxy changes it; default: the request's own. */
  readonly url?: string | undefined;
  /** What the sender is told when it is done, now or before, where it wants to hear more than that. Default: 204. */
  readonly respond?: ((value: T) => Partial<HttpAnswer>) | undefined;
  readonly clock?: Clock | undefined;
}

/** Four days: Standard Webhooks senders go on for more than three. */
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

/** Fails with `options-invalid` at once on bad options. Which method and path it is for is the router's to say. */
export function webhook<T = unknown>(guard: ConsumerGuard, options: WebhookOptions<T>): Receiver {
  checkOwn(options);
  const {
    scheme,
    secret,
    verify: ask,
    key = (verified: Webhook) => idKey(scheme, verified),
    toleranceMs,
    maxBodyBytes = WEBHOOK_DEFAULTS.maxBodyBytes,
    url,
    respond,
    clock = systemClock,
    onRejected,
    sender = scheme.sender,
    retentionMs = outlasting(WEBHOOK_DEFAULTS.retentionMs, { ...options, sender }),
    ...rest
  } = options;
  const inner = consumer<Webhook, T>(guard, { ...rest, key, sender, retentionMs });
  const verifier = verifierOf(scheme, secret, ask, {
    clock,
    ...(toleranceMs === undefined ? {} : { toleranceMs }),
  });

  return createReceiver(maxBodyBytes, async (came) => {
    const received: Received = url === undefined ? came : { ...came, url };
    let verified: Verified;
    try {
      verified = await verifier(received);
    } catch (error) {
      if (!isNevertwiceError(error, "signature-invalid")) throw error;
      // Nothing is looked up and nothing is written for somebody who is not the sender.
      harmless(() => options.onEvent?.({ kind: "refused", consumer: inner.name, verdict: "reject", error }));
      return refusal(error);
    }
    const delivery = await inner.handle({ ...received, ...verified });
    if (respond === undefined || !("value" in delivery)) return answerOf(delivery, { onRejected });
    return { ...ACCEPTED, status: 200, ...respond(delivery.value) };
  });
}

type Verifier = (received: Received) => Verified | Promise<Verified>;

function verifierOf(
  scheme: WebhookScheme,
  secret: Secret | readonly Secret[] | undefined,
  ask: WebhookOptions<unknown>["verify"],
  settings: Parameters<typeof createVerifier>[2],
): Verifier {
  if (ask === undefined) {
    const secrets = (Array.isArray(secret) ? secret : [secret]) as readonly Secret[];
    return createVerifier(scheme, secrets, settings);
  }
  return async (received) => {
    if ((await ask(received)) !== true) throw invalid("it is not the sender's own.");
    return { id: idOf(scheme, received), sentAtMs: undefined };
  };
}

function checkOwn<T>(options: WebhookOptions<T>): void {
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
    throw new NevertwiceError("options-invalid", "give either a secret or a verify function of your own.");
}
