/** One message in a network: what it carries, and how messages are derived from others. */
import { hash, randomUUID } from "node:crypto";
import { lengthPrefixed } from "../core/bytes.ts";
import { type ClaimName, ClaimsInUse } from "./claims-in-use.ts";
import type { MessageSettlement } from "./settlement.ts";

export interface Message {
  readonly id: string;
  /** The ids of the messages that it was made from: one, or those of a batch or a join. */
  readonly parents: readonly string[];
  /** Shared by all messages that were made from one pushed message. */
  readonly trace: string;
  readonly payload: unknown;
  /** Whether it combines several messages. Its children name those messages as their parents. */
  readonly isGroup: boolean;
  /** An earlier delivery may have got further: a node that finds its key completed forwards what it stored. */
  readonly isRecovered: boolean;
  /** A node with a key has forwarded it. Unlike a message from outside, it waits for a claim that is pending. */
  readonly isForwarded: boolean;
  /** The settlement that covers it. Undefined until a node with a key has forwarded it. */
  readonly settlement: MessageSettlement | undefined;
  /**
   * The claims that this delivery waits for or holds. All messages made from one pushed message share the object; a message
   * that combines several has one object for each.
   */
  readonly claimsInUse: readonly ClaimsInUse[];
  /** The id of the pushed message. Undefined for a message that combines several pushed messages. */
  readonly root: string | undefined;
  /** The caller of `request`, if one waits for a reply. */
  readonly waiter: Waiter | undefined;
}

export interface Waiter {
  /** On the network's timer. */
  readonly untilMs: number;
  reply(value: unknown): void;
}

/** A message from outside the network. */
export function createMessage(
  payload: unknown,
  {
    id = randomUUID(),
    trace = id,
  }: { readonly id?: string | undefined; readonly trace?: string | undefined },
  waiter?: Waiter,
): Message {
  return {
    id,
    parents: [],
    trace,
    payload,
    isGroup: false,
    isRecovered: false,
    isForwarded: false,
    settlement: undefined,
    claimsInUse: [new ClaimsInUse()],
    root: id,
    waiter,
  };
}

/** The child's id is derived from its parent's id, so that a message that is delivered again has children with the same ids. */
export function createChild(message: Message, node: string, index: number, payload: unknown): Message {
  const { id, isGroup, parents } = message;
  return {
    ...message,
    id: hashName([id, node, String(index)]),
    parents: isGroup ? parents : [id],
    payload,
    isGroup: false,
  };
}

/** One message for the messages of a batch or a join. */
export function combineMessages(messages: readonly Message[], payload: unknown): Message {
  const [first] = messages as readonly [Message, ...Message[]];
  const waiters = messages.flatMap(({ waiter }) => waiter ?? []);
  const isSame = messages.every(
    ({ settlement }) => settlement !== undefined && settlement === first.settlement,
  );
  return {
    id: hashName(messages.map(({ id }) => id)),
    parents: messages.map(({ id }) => id),
    trace: first.trace,
    payload,
    isGroup: true,
    isRecovered: messages.some(({ isRecovered }) => isRecovered),
    isForwarded: messages.every(({ isForwarded }) => isForwarded),
    // A message that no settlement covers would be lost in a crash: the next node with a key starts its own settlement.
    settlement: isSame ? first.settlement : undefined,
    claimsInUse: [...new Set(messages.flatMap(({ claimsInUse }) => claimsInUse))],
    root: messages.every(({ root }) => root === first.root) ? first.root : undefined,
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

/** Whether another message of the same delivery waits for this claim or holds it. Its outcome then counts for both. */
export function isClaimInUse({ claimsInUse }: Message, claim: ClaimName): boolean {
  for (const claims of claimsInUse) if (claims.has(claim)) return true;
  return false;
}

/** The message's delivery waits for the claim or holds it, until `endClaim`. */
export function beginClaim({ claimsInUse }: Message, claim: ClaimName): void {
  for (const claims of claimsInUse) claims.add(claim);
}

export function endClaim({ claimsInUse }: Message, claim: ClaimName): void {
  for (const claims of claimsInUse) claims.remove(claim);
}

const NAME_LENGTH = 32;

function hashName(parts: readonly string[]): string {
  return hash("sha256", parts.map(lengthPrefixed).join(""), "hex").slice(0, NAME_LENGTH);
}
