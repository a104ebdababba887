/**
 * How a message ended. A message is settled when it and everything that was emitted from it have ended. Only then may the
 * sender forget it.
 */

/** Where a message ended. `claim`: another attempt holds its key, or the store could not say. */
export type Phase = "validate" | "claim" | "execute" | "dispatch";

/** Why a message is not done. */
export interface Failure {
  /** `later`: sending it again can help. `reject`: it cannot, so move the message to where operators look. */
  readonly verdict: "later" | "reject";
  /** The id of the network. */
  readonly network: string;
  /** The name of the node. */
  readonly node: string;
  /** Where the message ended. */
  readonly phase: Phase;
  /** 0 for the first try. */
  readonly attempt: number;
  /** A short name: `timeout`, `schema-mismatch`, `pending`, or the tag, code or name of the error. */
  readonly reason: string;
  /** For `pending`: how long the other attempt's lease still holds, unless it is renewed. */
  readonly afterMs?: number;
  /** The error that was thrown. */
  readonly error?: unknown;
}

export interface MessageOutcome {
  readonly verdict: "acknowledge" | "later" | "reject";
  readonly failures: readonly Failure[];
  /** An earlier delivery did the work. */
  readonly isDuplicate: boolean;
  readonly reply?: { readonly value: unknown };
}

/** What `push` returns once the message and everything that was emitted from it have ended. */
export interface PushOutcome extends Omit<MessageOutcome, "reply"> {
  /** The id of the message. */
  readonly id: string;
  /** The trace of the message, which its children share. */
  readonly trace: string;
}

export const ACKNOWLEDGED: MessageOutcome = { verdict: "acknowledge", failures: [], isDuplicate: false };
export const DUPLICATE: MessageOutcome = { ...ACKNOWLEDGED, isDuplicate: true };

export function toOutcome(failure: Failure): MessageOutcome {
  return { verdict: failure.verdict, failures: [failure], isDuplicate: false };
}

/** `later` wins over `reject`: part of the message may be beyond help, but the rest still has to be done. */
export function mergeOutcomes(
  parts: readonly MessageOutcome[],
  reply?: { readonly value: unknown },
): MessageOutcome {
  const failures = parts.flatMap((part) => part.failures);
  const has = (verdict: MessageOutcome["verdict"]) => failures.some((failure) => failure.verdict === verdict);
  const firstReply = reply ?? parts.find((part) => part.reply !== undefined)?.reply;
  return {
    verdict: has("later") ? "later" : has("reject") ? "reject" : "acknowledge",
    failures,
    isDuplicate: false,
    ...(firstReply === undefined ? {} : { reply: firstReply }),
  };
}
