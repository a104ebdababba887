/** Values that all servers must share, such as a secret or an access token. They are useless until the store has them. */
import { type Guard, NevertwiceError, type Subject } from "nevertwice";

/**
 * Makes a value once and returns the one in the store. Throws `unavailable` if the store did not confirm it: `run` alone
 * would still return the value, and another server could make a different one.
 */
export async function recordedValue<T>(guard: Guard, subject: Subject, make: () => T): Promise<T> {
  await guard.run(subject, make);
  const outcome = (await guard.read(subject))?.outcome;
  if (outcome?.kind === "value") return outcome.value as T;
  throw new NevertwiceError("unavailable", "the store did not confirm the write; try again.");
}
