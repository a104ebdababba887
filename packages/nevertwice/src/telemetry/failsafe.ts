/** Runs telemetry code so that its failures never reach the call that it observes. */
import { diag } from "@opentelemetry/api";

/** Returns what the action returns, or undefined if it throws. */
export type Failsafe = <T>(action: () => T) => T | undefined;

/** Logs the first failure to OpenTelemetry's own log. Later ones would add nothing. */
export function createFailsafe(): Failsafe {
  let isLogged = false;
  return (action) => {
    try {
      return action();
    } catch (error) {
      if (!isLogged) logFailure(error);
      isLogged = true;
      return undefined;
    }
  };
}

function logFailure(error: unknown): void {
  try {
    diag.warn("nevertwice: telemetry failed; the calls that it observes are not affected.", error);
  } catch {
    // The log failed too.
  }
}
