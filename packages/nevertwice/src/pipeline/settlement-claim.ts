/** Sends a node's output to the next nodes under the settlement that covers it; settlement.ts shows the timeline. */
import type { Attempt, Work } from "../core/attempt.ts";
import type { RunResult } from "../core/result.ts";
import { isClaimInUse, type Message } from "./message.ts";
import { runClaimed, runClaimedNow } from "./message-claim.ts";
import type { MessageEndings } from "./message-endings.ts";
import type { MessageOutcome } from "./message-outcome.ts";
import type { NetworkContext } from "./network-context.ts";
import type { NodeOutcome } from "./node-outcome.ts";
import type { Cover, Forward } from "./node-result.ts";
import { type MessageSettlement, settlementName, settlementRequest } from "./settlement.ts";

/** Sends the output as emitted from `message`, and resolves when all of it has ended. */
export type Send = (message: Message) => Promise<MessageOutcome>;

type CoverOf<Kind extends Cover["kind"]> = Extract<Cover, { readonly kind: Kind }>;

/** Throws `FailedBefore`, or what the guard throws, if the settlement could not be claimed. */
export async function sendUnderSettlement(
  context: NetworkContext,
  endings: MessageEndings,
  forward: Forward,
  send: Send,
): Promise<MessageOutcome> {
  const { cover, output, message, place } = forward;
  switch (cover.kind) {
    case "none":
      return send(message);
    case "earlier":
      return sendCovered(cover.settlement, cover.isRepeat);
    case "own":
      return sendUnderOwn(cover);
    case "foreign":
      return sendUnderForeign(cover);
  }

  function sendCovered(settlement: MessageSettlement, isRepeat: boolean): Promise<MessageOutcome> {
    if (isRepeat) context.report?.({ ...place, kind: "recovered" });
    const isRecovered = message.isRecovered || isRepeat;
    return send({ ...message, isForwarded: true, isRecovered, settlement });
  }

  async function sendUnderOwn(own: CoverOf<"own">): Promise<MessageOutcome> {
    const { settlement, isRepeat } = own;
    // Two messages of one delivery have the same key: the other one forwards the output, and its outcome counts for both.
    if (isClaimInUse(message, settlementName(settlement))) return endings.duplicate(place, output.reply);
    return claimSettlement(own, async ({ number }) => {
      // A later attempt continues with what an earlier one, possibly of another delivery, did not finish.
      return sendCovered(settlement, isRepeat || number > 1);
    });
  }

  /** The claim is given back rather than completed: that run may have forwarded more output than this one does. */
  async function sendUnderForeign(foreign: CoverOf<"foreign">): Promise<MessageOutcome> {
    const { settlement, covering } = foreign;
    if (isClaimInUse(message, settlementName(settlement))) return sendCovered(covering, true);
    return claimSettlement(foreign, async ({ number }) => {
      // First attempt: the settlement's record is past its retention, and so is the time in which output is sent again.
      return number === 1 ? endings.duplicate(place, output.reply) : sendCovered(covering, true);
    });
  }

  async function claimSettlement(
    { kind, settlement, retentionMs }: CoverOf<"own" | "foreign">,
    work: (attempt: Attempt) => Promise<MessageOutcome>,
  ): Promise<MessageOutcome> {
    const request = settlementRequest(settlement);
    const claims = { guard: context.settlementGuard(retentionMs), timer: context.timer };
    let outcome: MessageOutcome | undefined;
    const claimed: Work<unknown> = async (attempt) => {
      outcome = await work(attempt);
      if (kind === "foreign") throw attempt.notDone(new Error("the settlement of another run"));
      if (outcome.verdict !== "acknowledge") throw new Error("not settled");
      return outcome.reply === undefined ? {} : { reply: outcome.reply };
    };
    let result: RunResult<unknown>;
    try {
      // A message that a settlement covers waits for no other settlement: two that wait for each other would never end.
      result = await (message.settlement === undefined
        ? runClaimed(claims, message, forward.free, request, claimed)
        : runClaimedNow(claims, message, request, claimed));
    } catch (error) {
      if (outcome === undefined) throw error;
      return outcome;
    }
    // Overtaken while sending: another process holds what was skipped here as done, and has not settled it yet.
    if (result.status === "lease-lost") return endings.sendAgain(place, result);
    return outcome ?? afterUnclaimed(result);
  }

  /** The settlement was completed, or is held by another delivery. */
  function afterUnclaimed(result: RunResult<unknown>): MessageOutcome {
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
}

/** An operator may have written the record, so it may hold any value. */
function readReply(value: unknown): NodeOutcome["reply"] {
  const { reply } = (value ?? {}) as { readonly reply?: unknown };
  return typeof reply === "object" && reply !== null && "value" in reply ? { value: reply.value } : undefined;
}
