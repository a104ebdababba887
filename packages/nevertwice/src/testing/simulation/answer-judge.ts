/** Judges what a caller got against what the referee knows of the record. */
import { isNevertwiceError } from "../../core/errors.ts";
import type { Referee } from "./referee.ts";

interface SimulatedAnswer {
  readonly id: string;
  readonly subject: string;
  readonly run: string;
  /** How often the caller's own work was started. */
  readonly runs: number;
}

export function judgeAnswer(
  referee: Referee,
  { id, subject, run, runs }: SimulatedAnswer,
  result: { readonly status: string },
): void {
  referee.count(`answer ${result.status}`);
  const { value, recorded, reason } = result as {
    value?: { run: string; subject: string };
    recorded?: boolean;
    reason?: string;
  };
  switch (result.status) {
    case "ran":
      if (value?.run !== run) referee.fail("I6", "the first caller was not given what its work returned");
      if (recorded && !referee.hasOutcome(id, run))
        referee.fail("I2", "an outcome was called recorded that is not");
      return;
    case "replayed":
      if (value?.subject !== subject) referee.fail("I7", "an outcome of another identity was replayed");
      else if (!referee.hasOutcome(id, value.run))
        referee.fail("I6", "an outcome was replayed that was never recorded");
      return;
    case "lease-lost":
      return;
    case "unknown":
      // With a reason, the attempt itself found out that it cannot continue the finished steps.
      if (runs > 0 && reason === undefined)
        referee.fail("I12", "a caller whose work ran got the answer unknown");
      return;
    default:
      if (runs > 0) referee.fail("I12", `a caller whose work ran got the answer ${result.status}`);
  }
}

export function judgeThrow(referee: Referee, id: string, run: string, error: unknown): void {
  referee.count("answer thrown");
  const message = error instanceof Error ? error.message : String(error);
  if (message === run || referee.hasOutcome(id, message)) return;
  const code = isNevertwiceError(error) ? error.code : "no code";
  referee.fail("I12", `a caller got an error that no work threw: ${message} (${code})`);
}
