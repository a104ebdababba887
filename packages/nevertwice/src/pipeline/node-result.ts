/**
 * What a node returns to the scheduler for one message: the message has ended here, or the node's output is to be sent to
 * the next nodes under a settlement (settlement.ts). The functions decide which; they send nothing.
 */
import type { Message } from "./message.ts";
import type { MessageEndings } from "./message-endings.ts";
import { ACKNOWLEDGED, type MessageOutcome } from "./message-outcome.ts";
import type { NodeSubject } from "./node-key.ts";
import type { NodeOutcome } from "./node-outcome.ts";
import type { EventPlace } from "./pipeline-event.ts";
import { createSettlement, isSameSettlement, type MessageSettlement } from "./settlement.ts";

export type NodeResult =
  | { readonly kind: "ended"; readonly outcome: MessageOutcome }
  | { readonly kind: "forward"; readonly forward: Forward };

/** Output to send to the next nodes. */
export interface Forward {
  readonly output: NodeOutcome;
  readonly message: Message;
  readonly place: EventPlace;
  /** Called when the node may take its next message. */
  readonly free: () => void;
  readonly cover: Cover;
}

/** Which settlement covers the output. `isRepeat`: an earlier delivery may have forwarded some of it. */
export type Cover =
  /** The node has no key: the output is covered as the message itself is. */
  | { readonly kind: "none" }
  /** A node earlier on the way holds the settlement that covers the message. */
  | { readonly kind: "earlier"; readonly settlement: MessageSettlement; readonly isRepeat: boolean }
  /** The node's own, to be completed when all output has ended. */
  | {
      readonly kind: "own";
      readonly settlement: MessageSettlement;
      readonly retentionMs: number;
      readonly isRepeat: boolean;
    }
  /** Another delivery's, under which this output was forwarded before. `covering` covers the message itself. */
  | {
      readonly kind: "foreign";
      readonly settlement: MessageSettlement;
      readonly retentionMs: number;
      readonly covering: MessageSettlement;
    };

/** One message in one node. */
export interface NodeVisit {
  readonly message: Message;
  readonly place: EventPlace;
  readonly free: () => void;
}

export interface KeyedNodeVisit extends NodeVisit {
  readonly subject: NodeSubject;
  readonly retentionMs: number;
}

export const ended = (outcome: MessageOutcome): NodeResult => ({ kind: "ended", outcome });

/** A node without a key ran. */
export function afterUnkeyedRun(output: NodeOutcome, visit: NodeVisit, endings: MessageEndings): NodeResult {
  return endWithoutOutput(output, visit, endings) ?? forward(output, visit, { kind: "none" });
}

/** This delivery ran the node. */
export function afterRun(output: NodeOutcome, visit: KeyedNodeVisit, endings: MessageEndings): NodeResult {
  const end = endWithoutOutput(output, visit, endings);
  if (end !== undefined) return end;
  const { settlement } = visit.message;
  if (settlement === undefined) return forward(output, visit, ownCover(output, visit, false));
  return forward(output, visit, { kind: "earlier", settlement, isRepeat: false });
}

/** An earlier delivery ran the node: its stored output is forwarded only if it has not reached its end yet. */
export function afterReplay(output: NodeOutcome, visit: KeyedNodeVisit, endings: MessageEndings): NodeResult {
  const { message, place, retentionMs } = visit;
  if (output.wrong !== undefined) return dispatchWrong(output.wrong, output, visit, endings);
  if (output.reply !== undefined) message.waiter?.reply(output.reply.value);
  if (output.emits.length === 0) return ended(endings.duplicate(place, output.reply));
  const { settlement } = message;
  if (settlement === undefined || output.care === "own")
    return forward(output, visit, ownCover(output, visit, true));
  if (output.care !== undefined && !isSameSettlement(output.care, settlement)) {
    return forward(output, visit, {
      kind: "foreign",
      settlement: output.care,
      retentionMs,
      covering: settlement,
    });
  }
  // Both came from the same message. The delivery that forwarded it first waits for it, unless that one was interrupted.
  if (message.isRecovered) return forward(output, visit, { kind: "earlier", settlement, isRepeat: true });
  return ended(endings.duplicate(place, output.reply));
}

function forward(output: NodeOutcome, { message, place, free }: NodeVisit, cover: Cover): NodeResult {
  return { kind: "forward", forward: { output, message, place, free, cover } };
}

function ownCover({ run }: NodeOutcome, visit: KeyedNodeVisit, isRepeat: boolean): Cover {
  const { subject, retentionMs } = visit;
  return { kind: "own", settlement: createSettlement(subject, run), retentionMs, isRepeat };
}

function endWithoutOutput(
  output: NodeOutcome,
  visit: NodeVisit,
  endings: MessageEndings,
): NodeResult | undefined {
  if (output.wrong !== undefined) return dispatchWrong(output.wrong, output, visit, endings);
  const { reply } = output;
  if (output.emits.length > 0) return undefined;
  if (reply !== undefined) visit.message.waiter?.reply(reply.value);
  return ended(reply === undefined ? ACKNOWLEDGED : { ...ACKNOWLEDGED, reply });
}

function dispatchWrong(
  wrong: string,
  { reply }: NodeOutcome,
  { message, place }: NodeVisit,
  endings: MessageEndings,
): NodeResult {
  if (reply !== undefined) message.waiter?.reply(reply.value);
  return ended(endings.dispatchFailed(place, { reason: "wrong-emit", error: new Error(wrong) }));
}
