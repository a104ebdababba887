/**
 * Sends events to the observers of a guard from parts of the library that are handed that guard. The function is stored
 * on the guard under a symbol, since the methods of a guard are for users. An object that only looks like a guard does
 * not have it, and then the event is dropped.
 */
import type { EventDetails } from "./observer.ts";
import type { Subject } from "./request.ts";

export type Notify = (subject: Subject, event: EventDetails) => void;

/** A registered symbol, so that all copies of this package share it. */
export const NOTIFY: unique symbol = Symbol.for("nevertwice.tell") as never;

export function notifyObservers(guard: object, subject: Subject, event: EventDetails): void {
  (guard as { readonly [NOTIFY]?: Notify })[NOTIFY]?.(subject, event);
}
