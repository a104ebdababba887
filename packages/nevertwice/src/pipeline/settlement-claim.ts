/** Sends a node's output to the next nodes under the settlement that covers it; settlement.ts shows the timeline. */
import type { Attempt } from "../core/attempt.ts";
import { type RunResult, refused } from "../core/result.ts";
import { isClaimInUse, type Message } from "./message.ts";
import { type ClaimedWork, runClaimed, runClaimedNow } from "./message-claim.ts";
import type { MessageOutcome } from "./message-outcome.ts";
import type { NetworkContext } from "./network-context.ts";
import type { Node } from "./node.ts";
import type { NodeOutcome } from "./node-outcome.ts";
import type { Cover, Forward } from "./node-result.ts";
import { type MessageSettlement, settlementRequest } from "./settlement.ts";

/** Sends the output as emitted from `message`, and resolves when all of it has ended. */
export type Send = (
  node: Node,
  output: NodeOutcome,
  message: Message,
  free: () => void,
) => Promise<MessageOutcome>;

/** Output to send, and what sends it. */
interface Sending {
  readonly context: NetworkContext;
  readonly node: Node;
  readonly forward: Forward;
  readonly send: Send;
}

type CoverOf<Kind extends Cover["kind"]> = Extract<Cover, { readonly kind: Kind }>;

const UNCONFIRMED = refused(new Error("the settlement is not confirmed"));

/** Rejects with `FailedBefore`, or what the guard throws, if the settlement could not be claimed. */
export function sendUnderSettlement(sending: Sending): Promise<MessageOutcome> {
  const { node, forward, send } = sending;
  const { cover, output, message, free } = forward;
  switch (cover.kind) {
    case "none":
      return send(node, output, message, free);
    case "earlier":
      return sendCovered(sending, cover.settlement, cover.isRepeat);
    default:
      return sendClaimed(sending, cover);
  }
}

function sendCovered(
  { context, node, forward, send }: Sending,
  settlement: MessageSettlement,
  isRepeat: boolean,
): Promise<MessageOutcome> {
  const { output, message, place, free } = forward;
  if (isRepeat) context.report?.({ ...place, kind: "recovered" });
  const isRecovered = message.isRecovered || isRepeat;
  const isSame =
    message.isForwarded && message.settlement === settlement && message.isRecovered === isRecovered;
  return send(
    node,
    output,
    isSame ? message : { ...message, isForwarded: true, isRecovered, settlement },
    free,
  );
}

/** Sends under the node's own settlement, or under another delivery's. */
async function sendClaimed(sending: Sending, cover: CoverOf<"own" | "foreign">): Promise<MessageOutcome> {
  const { context, node, forward } = sending;
  const { message, place, output, free } = forward;
  const request = settlementRequest(cover.settlement);
  if (isClaimInUse(message, request)) {
    // Two messages of one delivery have the same key: the other one forwards the output, and its outcome counts for both.
    if (cover.kind === "own") return node.endings.duplicate(place, output.reply);
    return sendCovered(sending, cover.covering, true);
  }
  const claims = { guard: context.settlementGuard(cover.retentionMs), timer: context.timer };
  const work = new SettlementWork(sending, cover);
  try {
    // A message that a settlement covers waits for no other settlement: two that wait for each other would never end.
    const result = await (message.settlement === undefined
      ? runClaimed(claims, message, free, request, work)
      : runClaimedNow(claims, message, request, work));
    // Overtaken while sending: another process holds what was skipped here as done, and has not settled it yet.
    if (result.status === "lease-lost") return node.endings.sendAgain(place, result);
    // Perhaps overtaken: only the store can tell.
    if (result.status === "ran" && !result.recorded) return node.endings.sendAgain(place, UNCONFIRMED);
    return work.outcome ?? afterUnclaimed(sending, result);
  } catch (error) {
    if (work.outcome === undefined) throw error;
    return work.outcome;
  }
}

/** Sends the output while the claim of its settlement is held. It throws if the claim is to be given back. */
class SettlementWork implements ClaimedWork<unknown> {
  outcome: MessageOutcome | undefined;
  thrown: { readonly error: unknown } | undefined;
  readonly #sending: Sending;
  readonly #cover: CoverOf<"own" | "foreign">;

  constructor(sending: Sending, cover: CoverOf<"own" | "foreign">) {
    this.#sending = sending;
    this.#cover = cover;
  }

  readonly run = async (attempt: Attempt): Promise<unknown> => {
    try {
      const outcome = await this.#send(attempt.number);
      this.outcome = outcome;
      // That run may have forwarded more output than this one does, so it stays open.
      if (this.#cover.kind === "foreign") throw attempt.notDone(new Error("the settlement of another run"));
      if (outcome.verdict !== "acknowledge") throw new Error("not settled");
      return outcome.reply === undefined ? {} : { reply: outcome.reply };
    } catch (error) {
      this.thrown = { error };
      throw error;
    }
  };

  #send(number: number): MessageOutcome | Promise<MessageOutcome> {
    const cover = this.#cover;
    // A later attempt continues with what an earlier one, possibly of another delivery, did not finish.
    if (cover.kind === "own")
      return sendCovered(this.#sending, cover.settlement, cover.isRepeat || number > 1);
    if (number > 1) return sendCovered(this.#sending, cover.covering, true);
    // First attempt: the settlement's record is past its retention, and so is the time in which output is sent again.
    const { node, forward } = this.#sending;
    return node.endings.duplicate(forward.place, forward.output.reply);
  }
}

/** The settlement was completed, or is held by another delivery. */
function afterUnclaimed({ node, forward }: Sending, result: RunResult<unknown>): MessageOutcome {
  const { endings } = node;
  const { output, message, place } = forward;
  // The other delivery belongs to another pushed message, which is sent again if it fails. That does not hold for a
  // second delivery of this same message.
  const isOfOtherMessage = output.root === undefined || output.root !== message.root;
  if (result.status === "pending" && message.settlement !== undefined && isOfOtherMessage)
    return endings.duplicate(place, output.reply);
  if (result.status === "not-kept") return endings.duplicate(place, output.reply);
  if (result.status !== "replayed") return endings.sendAgain(place, result);
  const reply = readReply(result.value);
  if (reply !== undefined) message.waiter?.reply(reply.value);
  return endings.duplicate(place, reply ?? output.reply);
}

/** An operator may have written the record, so it may hold any value. */
function readReply(value: unknown): NodeOutcome["reply"] {
  const { reply } = (value ?? {}) as { readonly reply?: unknown };
  return typeof reply === "object" && reply !== null && "value" in reply ? { value: reply.value } : undefined;
}
