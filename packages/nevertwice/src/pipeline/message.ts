/**
 * One message on its way, and what becomes of it. A message is settled when it and all that came of it have come to an
 * end: only then may whoever brought it forget it.
 */
import { hash } from "node:crypto";
import { lengthPrefixed } from "../core/bytes.ts";

export interface Message {
  readonly id: string;
  /** The messages that it was made of: one, or those of a batch or a join. */
  readonly parents: readonly string[];
  /** The same for all that comes of one message. */
  readonly trace: string;
  readonly payload: unknown;
  /** Several messages that were put together: what comes of it came of them. */
  readonly isGroup: boolean;
  /** It has been on its way before and may have got further: nodes that are done with it hand on what they kept. */
  readonly isRecovered: boolean;
  /** A node with a key has it in its care: it knows whether all that came of it is settled. */
  readonly isInCare: boolean;
  /** Somebody waits for a reply, until then on the timer. */
  readonly waiter: Waiter | undefined;
}

export interface Waiter {
  readonly untilMs: number;
  reply(value: unknown): void;
}

/** Where a message came to its end. `claim`: another attempt has its key, or nobody can say who has. */
export type Phase = "validate" | "claim" | "execute" | "dispatch";

/** Why a message is not settled. */
export interface Failure {
  /** `later`: sending it again can help. `reject`: it cannot; put it where people look. */
  readonly verdict: "later" | "reject";
  readonly network: string;
  readonly node: string;
  readonly phase: Phase;
  /** 0 for the first try. */
  readonly attempt: number;
  /** One word: `timeout`, `schema-mismatch`, `pending`, a tag, code or name of the error … */
  readonly reason: string;
  readonly error?: unknown;
}

export interface Settled {
  readonly verdict: "acknowledge" | "later" | "reject";
  readonly failures: readonly Failure[];
  /** Done by an earlier delivery. */
  readonly isDuplicate: boolean;
  readonly reply?: { readonly value: unknown };
}

/** What whoever pushed a message is told, once everything that came of it is settled. */
export interface PushOutcome extends Omit<Settled, "reply"> {
  readonly id: string;
  readonly trace: string;
}

export const ACKNOWLEDGED: Settled = { verdict: "acknowledge", failures: [], isDuplicate: false };
export const DUPLICATE: Settled = { ...ACKNOWLEDGED, isDuplicate: true };

export function unsettled(failure: Failure): Settled {
  return { verdict: failure.verdict, failures: [failure], isDuplicate: false };
}

/** What is to be sent again is, although some of it was rejected: the rest of it still has to be done. */
export function merged(parts: readonly Settled[], reply?: { readonly value: unknown }): Settled {
  const failures = parts.flatMap((part) => part.failures);
  const has = (verdict: Settled["verdict"]) => failures.some((failure) => failure.verdict === verdict);
  const given = reply ?? parts.find((part) => part.reply !== undefined)?.reply;
  return {
    verdict: has("later") ? "later" : has("reject") ? "reject" : "acknowledge",
    failures,
    isDuplicate: false,
    ...(given === undefined ? {} : { reply: given }),
  };
}

/** The names of what comes of a message are made of its own, so a message that comes again names the same. */
export function childOf(message: Message, node: string, index: number, payload: unknown): Message {
  const { id, isGroup, parents } = message;
  return {
    ...message,
    id: nameOf([id, node, String(index)]),
    parents: isGroup ? parents : [id],
    payload,
    isGroup: false,
  };
}

/** One message of several: the payload that a batch or a join is handed. */
export function together(messages: readonly Message[], payload: unknown): Message {
  const [first] = messages as readonly [Message, ...Message[]];
  const waiters = messages.flatMap(({ waiter }) => waiter ?? []);
  return {
    id: nameOf(messages.map(({ id }) => id)),
    parents: messages.map(({ id }) => id),
    trace: first.trace,
    payload,
    isGroup: true,
    isRecovered: messages.some(({ isRecovered }) => isRecovered),
    // Whoever is not in care would be lost if nobody looked after the whole.
    isInCare: messages.every(({ isInCare }) => isInCare),
    waiter:
      waiters.length === 0
        ? undefined
        : {
            untilMs: Math.max(...waiters.map(({ untilMs }) => untilMs)),
            reply: (value) => {
              for (const waiter of waiters) waiter.reply(value);
            },
          },
  };
}

const NAME_LENGTH = 32;

function nameOf(parts: readonly string[]): string {
  return hash("sha256", parts.map(lengthPrefixed).join(""), "hex").slice(0, NAME_LENGTH);
}
