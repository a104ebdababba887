/** Values that are worth nothing until the store has them: a secret that all copies of the server share, a token that all know. */
import { type Guard, NevertwiceError, type Subject } from "nevertwice";

/**
 * Makes a value once, and answers with the one in the store. Fails with `unavailable` if the store did not confirm it:
 * `run` alone would hand out the value all the same, and another copy of the server could make a different one.
 */
export async function recordedValue<T>(guard: Guard, subject: Subject, make: () => T): Promise<T> {
  await guard.run(subject, make);
  const outcome = (await guard.read(subject))?.outcome;
  if (outcome?.kind === "value") return outcome.value as T;
  throw new NevertwiceError("unavailable", "the store did not confirm what was to be kept; try again.");
}
