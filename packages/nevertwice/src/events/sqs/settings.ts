/** What the loop over a queue is told when it is started: its options, their checks and their defaults. */
import { NevertwiceError } from "../../core/errors.ts";
import { type Check, checkOptions, isFunction, isText, wholeFrom } from "../../core/policy.ts";
import { isClient, type SqsClient, type SqsMessage } from "./client.ts";

export interface SqsOptions {
  readonly client: SqsClient;
  readonly queueUrl: string;
  /** Where a message goes that sending again cannot help. Without it, it is left to the queue's redrive policy. */
  readonly deadLetterQueueUrl?: string | undefined;
  /** How many messages are under way at once. */
  readonly concurrency?: number | undefined;
  /** How long a call waits for messages; at most 20 s. */
  readonly waitMs?: number | undefined;
  /** How long a message is hidden from others; begun anew with each renewal of its claim. At most 12 h. */
  readonly visibilityMs?: number | undefined;
  /** Told what failed between us and the queue. Nothing is lost by it: what is not deleted comes again. */
  readonly onError?: ((error: unknown, failed: SqsFailure) => unknown) | undefined;
}

export interface SqsFailure {
  readonly during: "receive" | "delete" | "visibility" | "dead-letter";
  readonly message?: SqsMessage | undefined;
}

const SQS_DEFAULTS = { concurrency: 10, waitMs: 20_000, visibilityMs: 60_000 } as const;

const MOST_WAIT_MS = 20_000;
/** Twelve hours. */
export const MOST_VISIBILITY_MS = 43_200_000;

const SQS_CHECKS: Readonly<Record<string, Check>> = {
  client: isClient,
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
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...SQS_DEFAULTS, ...(Object.fromEntries(given) as unknown as SqsOptions) } as SqsSettings;
}

function upTo(least: number, most: number): Check {
  const isWhole = wholeFrom(least);
  return (name, value) => {
    isWhole(name, value);
    if ((value as number) <= most) return;
    throw new NevertwiceError("options-invalid", `${name} is ${value}; SQS allows at most ${most}.`);
  };
}
