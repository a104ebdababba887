/** What became of one delivery, and what whoever delivered it is to be told: three verdicts, on every broker. */
import type { NevertwiceError } from "../core/errors.ts";
import type { RecordState } from "../core/store.ts";

/**
 * `acknowledge`: it is done, do not send it again. `later`: send it again, after `afterMs`. `reject`: sending it again
 * cannot help; put it where people look (a dead-letter queue).
 */
export type Verdict = Delivery["verdict"];

interface Acknowledged {
  readonly verdict: "acknowledge";
}

interface Later {
  readonly verdict: "later";
  readonly afterMs: number;
}

interface Rejected {
  readonly verdict: "reject";
}

/** A delivery that is to be put where people look. */
export type Rejection = Extract<Delivery, Rejected>;

export type Delivery<T = unknown> =
  /** Done now. `recorded`: whether the store confirmed it in time; if not, the guard goes on trying. */
  | (Acknowledged & {
      readonly status: "done";
      readonly value: T;
      readonly recorded: boolean;
      readonly tries: number;
    })
  /** Done by an earlier delivery. Without a value if none was kept. */
  | (Acknowledged & { readonly status: "done-before"; readonly value?: T })
  /** Another delivery of it is being worked on. */
  | (Later & { readonly status: "pending" })
  /** The same key with other content: never run. Acknowledged only if the first one is done. */
  | ((Acknowledged | Later) & { readonly status: "conflict"; readonly state: RecordState })
  /** An earlier attempt ended and nobody knows how; it is held until somebody decides it with `guard.resolve`. */
  | (Later & { readonly status: "unknown"; readonly fence: number })
  /** The store did not answer. Nothing was done. */
  | (Later & { readonly status: "unavailable"; readonly error: NevertwiceError })
  /** The work ran, but another attempt held the key when it was to be recorded. */
  | (Later & { readonly status: "lease-lost" })
  /** The work threw, and its retries are used up. `attempts` counts those of earlier deliveries too. */
  | ((Later | Rejected) & {
      readonly status: "failed";
      readonly error: unknown;
      readonly tries: number;
      readonly attempts: number;
    })
  /** An earlier delivery failed for good, and the policy remembers it. */
  | (Rejected & { readonly status: "failed-before"; readonly error: unknown })
  /** The message has no key, or one that cannot be: sending it again cannot change that. */
  | (Rejected & { readonly status: "refused"; readonly error: unknown });
