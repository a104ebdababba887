/** Doing what may fail without failing: watching must not break what is watched. */
import { diag } from "@opentelemetry/api";

/** Answers what the action answers, or undefined if it throws. */
export type Quietly = <T>(action: () => T) => T | undefined;

/** Tells OpenTelemetry's own log of the first failure; a thousand more would say nothing new. */
export function createQuietly(): Quietly {
  let isTold = false;
  return (action) => {
    try {
      return action();
    } catch (error) {
      if (!isTold) tell(error);
      isTold = true;
      return undefined;
    }
  };
}

function tell(error: unknown): void {
  try {
    diag.warn("nevertwice: telemetry failed; what it watches goes on.", error);
  } catch {
    // The log fails too.
  }
}
