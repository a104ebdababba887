/** One way into the library, as a trial of operator decisions asks it: for any key, again and again. */
import type { Subject } from "../../src/core/request.ts";
import type { Guard } from "../../src/functions/guard.ts";

export interface Door {
  /** What an operator calls the record of a key. */
  subject(key: string): Subject;
  /**
   * Delivers the request of a key, and answers the status in words. Throws what a caller would see thrown, and
   * `FrameworkError` for an answer that no code of ours made.
   */
  deliver(key: string): Promise<string>;
  stop?(): unknown;
}

/** `effect` is what must not happen twice. */
export type OpenDoor = (guard: Guard, effect: (key: string) => void) => Door | Promise<Door>;

/** A server's own answer to an error that the application threw. */
export class FrameworkError extends Error {}
