/** The error for a transaction in a database that does not have the record of its claim. */
import { NevertwiceError } from "./errors.ts";
import { type Identity, toErrorSubject } from "./identity.ts";

export function otherDatabase(identity: Identity): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    "the transaction does not see the record of its claim, so nothing was run. Hand in the database that has the store's tables, with the same schema: a read replica or another database cannot commit the work together with the record.",
    toErrorSubject(identity),
  );
}
