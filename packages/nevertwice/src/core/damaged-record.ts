/** The error for a record that no version of this library writes. */
import { NevertwiceError } from "./errors.ts";

/** The message does not contain the value, which may be a secret. */
export function damagedRecord(id: string, member: string): NevertwiceError {
  return new NevertwiceError(
    "store-unsafe",
    `the record ${id} is damaged: its ${member} has a value that nevertwice never writes. Repair it by hand, or remove it if its work may be done again.`,
  );
}
