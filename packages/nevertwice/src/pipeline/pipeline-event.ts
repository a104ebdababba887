/** What a pipeline tells whoever watches it. Never a key, and a payload only where a node's [capture] asks for it. */
import type { Captured } from "./capture.ts";
import type { Failure, Settled } from "./message.ts";

/** Which message, and where. */
export interface Where {
  readonly network: string;
  readonly node: string;
  readonly id: string;
  readonly parents: readonly string[];
  readonly trace: string;
  /** The name that the guard's events have for the node's key; nodes without a key have none. */
  readonly keyHash?: string;
}

/** What an event is about, but for the kind. */
interface Details {
  /** A node starts on a message. `captured` is the payload. */
  readonly started: Where & { readonly captured?: Captured };
  /** It is done, and what it emits is kept if it has a key. `captured` are the payloads that it emits. */
  readonly completed: Where & {
    readonly attempt: number;
    readonly ranMs: number;
    readonly emits: number;
    readonly captured?: readonly Captured[];
  };
  /** It failed, and is not tried again in this delivery. */
  readonly failed: Where & Pick<Failure, "phase" | "attempt" | "reason" | "verdict" | "error">;
  /** Another attempt has the key, or nobody can say who has: the message is to be sent again. */
  readonly later: Where & Pick<Failure, "reason" | "error">;
  /** `attempt` is the one that follows. */
  readonly retrying: Where & {
    readonly afterMs: number;
    readonly attempt: number;
    readonly reason: string;
    readonly error: unknown;
  };
  /** There would have been a retry, but the network stops. The key is released. */
  readonly "retry-lost": Where & {
    readonly attempt: number;
    readonly reason: string;
    readonly error: unknown;
  };
  /** The key is done by an earlier delivery: nothing was run. */
  readonly duplicate: Where;
  /** The node itself filtered the message out. */
  readonly dropped: Where & { readonly reason?: string };
  /** An earlier delivery got no further than here: what the node kept goes on again, and the node is not run again. */
  readonly recovered: Where;
  /** What the node emitted could not be kept: after a crash it could not go on. */
  readonly "not-kept": Where;
  /** What the node emitted did not get out, by one of its ports. The node is not run again for it. */
  readonly "dispatch-failed": Where & Pick<Failure, "reason" | "error"> & { readonly port?: string };
  /** A buffer is full: whoever pushes waits. */
  readonly "back-pressure": Where & { readonly port: string; readonly buffer: number };
  /** The message that was pushed and all that came of it have come to their ends. */
  readonly settled: Omit<Where, "node"> & { readonly verdict: Settled["verdict"] };
  readonly "request-started": Omit<Where, "node">;
  readonly "request-ended": Omit<Where, "node"> & {
    readonly ending: "replied" | "failed" | "timed-out" | "no-reply";
    readonly tookMs: number;
  };
  /** Whoever brought the message could not be told that it is settled: it will bring it again. */
  readonly "not-acknowledged": Where & { readonly error: unknown };
  /** A source failed outside of a message, and is started again. */
  readonly restarted: { readonly network: string; readonly node: string; readonly error: unknown };
  /** The network takes no more messages: it was closed, or `error` says why it gave up. */
  readonly stopped: { readonly network: string; readonly node?: string; readonly error?: unknown };
}

export type PipelineEvent = {
  [Kind in keyof Details]: { readonly kind: Kind } & Details[Kind];
}[keyof Details];

export type Tell = (event: PipelineEvent) => void;
