/** A flag whose value is a time: in ISO 8601, or a duration for so long ago. */
import { durationMs } from "nevertwice/env";
import { type CommandCall, UsageError } from "./command.ts";

/** With its time zone: without one, it would mean another moment on each machine. */
const ISO_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})$/;
const DURATION = /^\d+(\.\d+)?[a-z]+$/;

/** Milliseconds since the epoch. Throws `UsageError` if the value is neither a time nor a duration. */
export function timeIn(call: CommandCall, flag: string): number | undefined {
  const text = call.text(flag);
  if (text === undefined) return undefined;
  const at = DURATION.test(text) ? Date.now() - durationMs(`--${flag}`, text) : Date.parse(text);
  if (DURATION.test(text) || (ISO_TIME.test(text) && !Number.isNaN(at))) return Math.max(0, at);
  throw invalid(flag);
}

function invalid(flag: string): UsageError {
  return new UsageError(
    `--${flag} must be a time such as 2026-11-18T20:00:00Z, or a duration such as 2h for two hours ago.`,
  );
}
