/** How long known senders go on sending a message again: what is forgotten sooner would be done twice. */
import { NevertwiceError } from "../core/errors.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** From the first delivery to the last that the sender's own documents promise, as they stood in November 2026. */
export const RETRY_HORIZONS_MS = {
  /** The schedule that the specification suggests: ten tries over 75 h 35 min 5 s. */
  "standard-webhooks": 75 * HOUR_MS + 35 * MINUTE_MS + 5_000,
  /** docs.stripe.com/webhooks: by itself, up to three days. People may resend an event for longer. */
  stripe: 3 * DAY_MS,
  /** docs.github.com, redelivering webhooks: never by itself; people may redeliver those of the past three days. */
  github: 3 * DAY_MS,
  /** The same page for Enterprise Server: seven days. */
  "github-enterprise-server": 7 * DAY_MS,
  /** shopify.dev changelog of September 2024: eight times over four hours. */
  shopify: 4 * HOUR_MS,
  /** docs.slack.dev, Events API: three times: at once, after a minute, after five more. */
  slack: 6 * MINUTE_MS,
  /** developer.squareup.com, webhooks: up to 72 hours. */
  square: 72 * HOUR_MS,
  /** docs.svix.com/retries: eight tries over 27 h 35 min 5 s. */
  svix: 27 * HOUR_MS + 35 * MINUTE_MS + 5_000,
  /** docs.adyen.com, troubleshooting webhooks: from the retry queue for 30 days. */
  adyen: 30 * DAY_MS,
  /** twilio.com/docs/usage/webhooks, connection overrides: 15 s is the most for all tries together. */
  twilio: 15_000,
  /** The longest that a queue can be told to keep a message. */
  sqs: 14 * DAY_MS,
} as const;

export type Sender = keyof typeof RETRY_HORIZONS_MS;

export interface SenderOptions {
  readonly sender?: Sender | undefined;
  readonly retryHorizonMs?: number | undefined;
}

/** A retention where none was given: the door's own, or a day more than the sender's horizon if that is not shorter. */
export function outlasting(retentionMs: number, options: SenderOptions): number {
  const horizonMs = horizonOf(options);
  return retentionMs > horizonMs ? retentionMs : horizonMs + DAY_MS;
}

/** Refuses a retention that ends while the sender may still send. */
export function checkHorizon(retentionMs: number, options: SenderOptions): void {
  const horizonMs = horizonOf(options);
  if (retentionMs > horizonMs) return;
  throw new NevertwiceError(
    "options-invalid",
    `retentionMs is ${retentionMs}, but ${options.sender ?? "the sender"} may send a message again for ${horizonMs} ms: what is forgotten sooner would be done twice. Give more than that.`,
  );
}

function horizonOf({ sender, retryHorizonMs = 0 }: SenderOptions): number {
  return Math.max(retryHorizonMs, sender === undefined ? 0 : RETRY_HORIZONS_MS[sender]);
}
