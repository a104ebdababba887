/** The errors of the client. It throws few codes, so a page does not load the table of all codes in `core/errors.ts`. */
import { BRAND, type ERROR_CODES, type ErrorCode, type NevertwiceError } from "../core/errors.ts";

/** The codes whose requests cannot succeed when they are sent again unchanged: the client throws no other. */
type FinalCode = {
  [Code in ErrorCode]: (typeof ERROR_CODES)[Code]["retryable"] extends false ? Code : never;
}[ErrorCode];

/** What `isNevertwiceError` recognises. The compiler compares the status with the one in the table. */
export class ClientError<Code extends FinalCode> extends Error implements NevertwiceError {
  /** Consoles print it in front of the error. */
  static override readonly name = "NevertwiceError";
  readonly code: Code;
  readonly status: (typeof ERROR_CODES)[Code]["status"];
  readonly retryable = false;

  constructor(code: Code, status: (typeof ERROR_CODES)[Code]["status"], message: string) {
    super(`${code}: ${message}`);
    this.code = code;
    this.status = status;
    Object.defineProperty(this, BRAND, { value: true });
  }

  // On the prototype, like the name of Error: an own property would be printed with every error.
  override get name(): string {
    return "NevertwiceError";
  }
}

export function optionsInvalid(message: string): ClientError<"options-invalid"> {
  return new ClientError("options-invalid", 500, message);
}

export function keyInvalid(message: string): ClientError<"key-invalid"> {
  return new ClientError("key-invalid", 400, message);
}
