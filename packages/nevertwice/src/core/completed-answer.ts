/** The answer to a call whose key is completed, and what observers are told about it. */
import { readRecord } from "./claim-round.ts";
import { decodeOutcome, type KeptOutcome } from "./outcome.ts";
import type { Ports } from "./ports.ts";
import { replayFault } from "./replay-fault.ts";
import { reportReplay } from "./report.ts";
import type { Call } from "./request.ts";
import { type RunResult, refused, replay, shownOutcome } from "./result.ts";

export function answerCompleted<T>(
  ports: Ports,
  call: Call,
  kept: KeptOutcome,
): RunResult<T> | Promise<RunResult<T>> {
  return call.token === undefined
    ? answerDuplicate(ports, call, kept)
    : answerOwn(ports, call, call.token, kept);
}

function answerDuplicate<T>({ emit }: Ports, call: Call, kept: KeptOutcome): RunResult<T> {
  const { identity, policy, decode, judgeReplay } = call;
  if (policy.onCompleted === "reject") {
    if (emit !== undefined) reportReplay(emit, identity, decodeOutcome(kept), "refused");
    return { status: "already-done" };
  }
  const outcome = shownOutcome(decodeOutcome(kept), decode);
  if (emit !== undefined) reportReplay(emit, identity, outcome, replayFault(outcome, judgeReplay));
  return replay(outcome);
}

/** If the caller brought its own token and that token completed the record, the call answers `ran` again. */
async function answerOwn<T>(
  ports: Ports,
  call: Call,
  ownToken: string,
  kept: KeptOutcome,
): Promise<RunResult<T>> {
  const { identity, judgeReplay } = call;
  try {
    const { token } = (await readRecord(ports, call)) ?? {};
    if (token !== ownToken) return answerDuplicate(ports, call, kept);
  } catch (error) {
    return refused(error, { identity });
  }
  const outcome = decodeOutcome(kept);
  reportReplay(ports.emit, identity, outcome, replayFault(outcome, judgeReplay));
  return {
    status: "ran",
    value: (outcome.kind === "value" ? outcome.value : undefined) as T,
    recorded: true,
  };
}
