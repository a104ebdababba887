/** The options of the loop over a queue: their checks and their defaults. */
import { NevertwiceError } from "../../core/errors.ts";
import {
  type Check,
  checkOptions,
  givenOptions,
  isFunction,
  isText,
  wholeFrom,
} from "../../core/option-checks.ts";
import { isSqsClient, type SqsClient } from "./client.ts";
import type { SqsMessage } from "./message.ts";

/** Options of `consumeSqs`. */
export interface SqsOptions {
  /** The client `SQS` of `@aws-sdk/client-sqs`. You destroy it. */
  readonly client: SqsClient;
  /** The URL of the queue. */
  readonly queueUrl: string;
  /** The queue for rejected messages. Without it, the queue's redrive policy decides. */
  readonly deadLetterQueueUrl?: string | undefined;
  /** How many messages are processed at once. */
  readonly concurrency?: number | undefined;
  /** How long a call waits for messages. At most 20 s. */
  readonly waitMs?: number | undefined;
  /** How long a message is hidden from other receivers. Each renewal of the claim restarts it. At most 12 h. */
  readonly visibilityMs?: number | undefined;
  /** Called when a call to SQS failed. No message is lost: one that is not deleted comes again. */
  readonly onError?: ((error: unknown, failed: SqsFailure) => unknown) | undefined;
}

/** A call to SQS that failed. */
export interface SqsFailure {
  /** Which call it was. */
  readonly during: "receive" | "delete" | "visibility" | "dead-letter";
  /** The message that it was about; undefined for `receive`. */
  readonly message?: SqsMessage | undefined;
}

const SQS_DEFAULTS = { concurrency: 10, waitMs: 20_000, visibilityMs: 60_000 } as const;

const MOST_WAIT_MS = 20_000;
/** Twelve hours. */
export const MOST_VISIBILITY_MS = 43_200_000;

const SQS_CHECKS: Readonly<Record<string, Check>> = {
  client: isSqsClient,
  queueUrl: isText,
  deadLetterQueueUrl: isText,
  concurrency: wholeFrom(1),
  waitMs: upTo(0, MOST_WAIT_MS),
  visibilityMs: upTo(1_000, MOST_VISIBILITY_MS),
  onError: isFunction,
};

export type SqsSettings = SqsOptions & {
  readonly concurrency: number;
  readonly waitMs: number;
  readonly visibilityMs: number;
};

export function sqsSettings(options: SqsOptions): SqsSettings {
  checkOptions(options, SQS_CHECKS);
  for (const name of ["client", "queueUrl"] as const) {
    if (options[name] !== undefined) continue;
    throw new NevertwiceError(
      "options-invalid",
      `${name} is missing: consumeSqs(consumer, { client, queueUrl }).`,
    );
  }
  return { ...SQS_DEFAULTS, ...givenOptions(options) } as SqsSettings;
}

/** Otherwise the queue delivers the message again while its work runs, and counts that towards its dead-letter queue. */
export function requireVisibility({ visibilityMs }: SqsSettings, renewedWithinMs = 0): void {
  if (visibilityMs >= renewedWithinMs) return;
  throw new NevertwiceError(
    "options-invalid",
    `visibilityMs is ${visibilityMs}, but a running message is hidden anew only every ${renewedWithinMs} ms: give at least that, or shorten leaseMs of the consumer (transactionMs with a transaction).`,
  );
}

function upTo(least: number, most: number): Check {
  const isWhole = wholeFrom(least);
  return (name, value) => {
    isWhole(name, value);
    if ((value as number) <= most) return;
    throw new NevertwiceError("options-invalid", `${name} is ${value}; SQS allows at most ${most}.`);
  };
}
