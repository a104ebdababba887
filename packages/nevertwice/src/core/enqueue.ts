/**
 * `attempt.enqueue`: writes a message of the outbox in the transaction of an attempt. `transaction/` says in which
 * transaction an attempt works, and `outbox/` writes the message; this file connects the two without importing either.
 */
import { sha256 } from "#platform";
import { lengthPrefixed } from "./bytes.ts";
import { NevertwiceError } from "./errors.ts";
import type { Parts } from "./store.ts";

export interface EnqueueOptions {
  /** Messages of one key are delivered in order. Without it, the message has no order. */
  readonly key?: string | undefined;
  /**
   * Headers that the receiver gets with the message.
   * @default none
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

interface EnqueuedMessage extends EnqueueOptions {
  readonly topic: string;
  readonly body: unknown;
  readonly scope?: string | undefined;
}

/** How an attempt reaches the outbox of its guard. On SQLite it returns at once. */
export interface EnqueueDoor {
  send(tx: unknown, message: EnqueuedMessage, id: string): string | Promise<string>;
}

/** A registered symbol, so that all copies of this package share it. */
export const ENQUEUE_DOOR: unique symbol = Symbol.for("nevertwice.enqueue") as never;

/** Throws `options-invalid` unless the value is an outbox. */
export function isOutbox(name: string, value: unknown): void {
  if (typeof value === "object" && value !== null && ENQUEUE_DOOR in value) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be an outbox: createOutbox of nevertwice/outbox makes one.`,
  );
}

export function enqueueDoor(outbox: object | undefined): EnqueueDoor | undefined {
  return (outbox as { readonly [ENQUEUE_DOOR]?: EnqueueDoor } | undefined)?.[ENQUEUE_DOOR];
}

/** The transaction in which an attempt works, and the messages it wrote in it. */
interface OpenTransaction {
  readonly tx: unknown;
  sent: number;
  readonly pending: Promise<unknown>[];
}

const transactions = new WeakMap<object, OpenTransaction>();

/**
 * Runs the work of an attempt in this transaction. A transaction that is repeated starts with its first message again, so
 * its messages get the same ids. Rejects if a message could not be written, also if the work did not await it.
 */
export async function enqueueWithin<T>(
  attempt: object,
  tx: unknown,
  work: () => T | PromiseLike<T>,
): Promise<T> {
  const open: OpenTransaction = { tx, sent: 0, pending: [] };
  transactions.set(attempt, open);
  try {
    const value = await work();
    await Promise.all(open.pending);
    return value;
  } finally {
    transactions.delete(attempt);
  }
}

/** The same for the synchronous work of a SQLite connection. */
export function enqueueWithinSync<T>(attempt: object, tx: unknown, work: () => T): T {
  transactions.set(attempt, { tx, sent: 0, pending: [] });
  try {
    return work();
  } finally {
    transactions.delete(attempt);
  }
}

/** Which attempt enqueues. */
interface Enqueuer {
  readonly attempt: object;
  readonly parts: Parts;
  readonly fence: number;
  readonly outbox: EnqueueDoor | undefined;
}

/** Throws `options-invalid` outside of a transaction, and for a guard without an outbox. */
export function enqueue(
  { attempt, parts, fence, outbox }: Enqueuer,
  topic: string,
  body: unknown,
  options: EnqueueOptions = {},
): string | Promise<string> {
  const open = transactions.get(attempt);
  if (outbox === undefined)
    throw new NevertwiceError(
      "options-invalid",
      "this guard has no outbox: createGuard({ store, outbox }) with an outbox on the same database.",
    );
  if (open === undefined)
    throw new NevertwiceError(
      "options-invalid",
      "attempt.enqueue was called outside of a transaction: use it inside the work of guard.transaction or once, and before that work ends.",
    );
  const { key, headers } = options;
  const message = { topic, body, key, headers, scope: parts.scope === "" ? undefined : parts.scope };
  const answer = outbox.send(open.tx, message, messageId(parts, fence, open.sent++));
  if (typeof answer !== "string") {
    // Awaited by `enqueueWithin`, if not by the work.
    answer.catch(() => {});
    open.pending.push(answer);
  }
  return answer;
}

/**
 * The same for every run of one attempt's transaction, and another one for each attempt: a record that an operator reopened,
 * or whose retention is over, sends new messages. This format must never change.
 */
function messageId(parts: Parts, fence: number, position: number): string {
  const { namespace, scope, operation, key } = parts;
  const text = ["nevertwice/message/1", namespace, scope, operation, key, String(fence), String(position)];
  return sha256(text.map(lengthPrefixed).join(""), "base64url");
}
