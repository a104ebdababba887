/** How long known senders keep sending a message again. A shorter retention would let a message be processed twice. */
import { NevertwiceError } from "../core/errors.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** From the first delivery to the last, as each sender documented it in November 2026. */
export const RETRY_HORIZONS_MS = {
  /** The schedule that the specification suggests: ten tries over 75 h 35 min 5 s. */
  "standard-webhooks": 75 * HOUR_MS + 35 * MINUTE_MS + 5_000,
  /** docs.stripe.com/webhooks: automatically for up to three days. People may resend an event for longer. */
  stripe: 3 * DAY_MS,
  /** docs.github.com, redelivering webhooks: never automatically. People may redeliver those of the past three days. */
  github: 3 * DAY_MS,
  /** The same page for Enterprise Server: seven days. */
  "github-enterprise-server": 7 * DAY_MS,
  /** shopify.dev changelog of September 2024: eight times over four hours. */
  shopify: 4 * HOUR_MS,
  /** docs.slack.dev, Events API: three times: immediately, after one minute, after five more minutes. */
  slack: 6 * MINUTE_MS,
  /** developer.squareup.com, webhooks: up to 72 hours. */
  square: 72 * HOUR_MS,
  /** docs.svix.com/retries: eight tries over 27 h 35 min 5 s. */
  svix: 27 * HOUR_MS + 35 * MINUTE_MS + 5_000,
  /** docs.adyen.com, troubleshooting webhooks: from the retry queue for 30 days. */
  adyen: 30 * DAY_MS,
  /** twilio.com/docs/usage/webhooks, connection overrides: at most 15 s for all tries together. */
  twilio: 15_000,
  /** The longest retention period that a queue can have. */
  sqs: 14 * DAY_MS,
} as const;

/** A sender whose retries are known: how long it goes on sending a message that was not accepted. */
export type Sender = keyof typeof RETRY_HORIZONS_MS;

export interface SenderOptions {
  readonly sender?: Sender | undefined;
  readonly retryHorizonMs?: number | undefined;
}

/** The default retention: `retentionMs`, or a day more than the sender's horizon if `retentionMs` is not longer than it. */
export function retentionPast(retentionMs: number, options: SenderOptions): number {
  const horizonMs = longestRetryMs(options);
  return retentionMs > horizonMs ? retentionMs : horizonMs + DAY_MS;
}

/** Throws `options-invalid` if the retention ends while the sender may still send. */
export function checkHorizon(retentionMs: number, options: SenderOptions): void {
  const horizonMs = longestRetryMs(options);
  if (retentionMs > horizonMs) return;
  throw new NevertwiceError(
    "options-invalid",
    `retentionMs is ${retentionMs}, but ${options.sender ?? "the sender"} may send a message again for ${horizonMs} ms: give a longer retentionMs, or a message may be processed twice.`,
  );
}

function longestRetryMs({ sender, retryHorizonMs = 0 }: SenderOptions): number {
  return Math.max(retryHorizonMs, sender === undefined ? 0 : RETRY_HORIZONS_MS[sender]);
}
