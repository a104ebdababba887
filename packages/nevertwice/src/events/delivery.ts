/** The result of one delivery, with the verdict for the broker: one of three, for every broker. */
import type { NevertwiceError } from "../core/errors.ts";
import type { RecordState } from "../core/store.ts";

/**
 * `acknowledge`: the message is done, do not send it again. `later`: send it again after `afterMs`. `reject`: sending it
 * again cannot help, so move it to where operators look, such as a dead-letter queue.
 */
export type Verdict = Delivery["verdict"];

interface AcknowledgeVerdict {
  readonly verdict: "acknowledge";
}

interface LaterVerdict {
  readonly verdict: "later";
  readonly afterMs: number;
}

interface RejectVerdict {
  readonly verdict: "reject";
}

/** A delivery with the verdict `reject`. */
export type Rejection = Extract<Delivery, RejectVerdict>;

/** The result of one delivery, with the verdict for the broker. */
export type Delivery<T = unknown> =
  /** Done now. `recorded`: whether the store confirmed it in time. If not, the guard keeps trying. */
  | (AcknowledgeVerdict & {
      /** What became of the message. */
      readonly status: "done";
      /** What the work returned, or what is stored of it. */
      readonly value: T;
      /** Whether the store confirmed the outcome in time. If not, the guard keeps trying. */
      readonly recorded: boolean;
      /** How often the work was tried in this delivery. */
      readonly tries: number;
    })
  /** Done by an earlier delivery. `value` is missing if none is stored. */
  | (AcknowledgeVerdict & { readonly status: "done-before"; readonly value?: T })
  /** Another delivery of the message is being processed. */
  | (LaterVerdict & { readonly status: "pending" })
  /** The same key with other content: never run. Acknowledged only if the first message is done. */
  | ((AcknowledgeVerdict | LaterVerdict) & {
      readonly status: "conflict";
      /** The state of the record whose message had other content. */
      readonly state: RecordState;
    })
  /** The outcome of an earlier attempt is unknown. The key is held until an operator decides it with `guard.resolve`. */
  | (LaterVerdict & {
      readonly status: "unknown";
      /** The fence of the lapsed claim, which `guard.resolve` needs. */
      readonly fence: number;
    })
  /** The store did not answer. Nothing was done. */
  | (LaterVerdict & {
      readonly status: "unavailable";
      /** Why the message was not processed, or what the work threw in the end. */
      readonly error: NevertwiceError;
    })
  /** The work ran, but another attempt held the key when the outcome was to be stored. */
  | (LaterVerdict & { readonly status: "lease-lost" })
  /** The work threw, and its retries are used up. `attempts` includes those of earlier deliveries. */
  | ((LaterVerdict | RejectVerdict) & {
      readonly status: "failed";
      readonly error: unknown;
      readonly tries: number;
      /** How many attempts there were, over all deliveries. */
      readonly attempts: number;
    })
  /** An earlier delivery failed, and the policy remembers the failure. */
  | (RejectVerdict & { readonly status: "failed-before"; readonly error: unknown })
  /** The message has no key, or an invalid one. Sending it again cannot change that. */
  | (RejectVerdict & { readonly status: "refused"; readonly error: unknown });
