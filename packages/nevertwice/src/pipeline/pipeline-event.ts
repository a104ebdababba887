/** The events of a pipeline. They never contain a key, and contain a payload only for a node with [capture]. */
import type { CapturedPayload } from "./captured-payload.ts";
import type { EffectUse } from "./effect-grants.ts";
import type { Failure, MessageOutcome } from "./message-outcome.ts";

/** Which message, in which node. */
export interface EventPlace {
  readonly network: string;
  readonly node: string;
  readonly id: string;
  readonly parents: readonly string[];
  readonly trace: string;
  /** The same hash of the node's key as in the guard's events. Undefined for a node without a key. */
  readonly keyHash?: string;
}

/** The members of each kind of event, without `kind`. */
interface PipelineEventDetails {
  /** A message entered the network. `port` is the exposed in-port, or the out-port of the source that produced it. */
  readonly entered: EventPlace & { readonly port: string };
  /** A node starts to work on a message. `captured` is the payload. */
  readonly started: EventPlace & { readonly captured?: CapturedPayload };
  /** The node is done; if it has a key, its output is stored. `captured` are the payloads that it emits. */
  readonly completed: EventPlace & {
    readonly attempt: number;
    readonly ranMs: number;
    readonly emits: number;
    /** The out-ports that it emitted by, each once. */
    readonly ports: readonly string[];
    readonly captured?: readonly CapturedPayload[];
  };
  /** A shell used a declared effect. A source uses effects for no message, so its event has no `id`. */
  readonly "effect-used": Pick<EventPlace, "network" | "node"> & Partial<EventPlace> & EffectUse;
  /** The node failed, and is not tried again in this delivery. */
  readonly failed: EventPlace & Pick<Failure, "phase" | "attempt" | "reason" | "verdict" | "error">;
  /** Another attempt holds the key, or the store could not say: the message is to be sent again. */
  readonly later: EventPlace & Pick<Failure, "reason" | "error">;
  /** A try failed. `attempt` is the number of the next try. */
  readonly retrying: EventPlace & {
    readonly afterMs: number;
    readonly attempt: number;
    readonly reason: string;
    readonly error: unknown;
  };
  /** A retry was due, but the network stops. The key is released. */
  readonly "retry-lost": EventPlace & {
    readonly attempt: number;
    readonly reason: string;
    readonly error: unknown;
  };
  /** An earlier delivery completed the key: the node did not run. */
  readonly duplicate: EventPlace;
  /** The node returned `drop()`. */
  readonly dropped: EventPlace & { readonly reason?: string };
  /** A message found no match in a [join], and leaves by the dead-letter port. */
  readonly "dead-lettered": EventPlace & { readonly port: string };
  /** An earlier delivery ended here: the node's stored output is forwarded again, and the node does not run again. */
  readonly recovered: EventPlace;
  /** The node's output could not be stored, so it could not be forwarded after a crash. */
  readonly "not-kept": EventPlace;
  /** The node's output, or that of one port, could not be sent. The node does not run again for it. */
  readonly "dispatch-failed": EventPlace & Pick<Failure, "reason" | "error"> & { readonly port?: string };
  /** A buffer is full: the sender waits. */
  readonly "back-pressure": EventPlace & { readonly port: string; readonly buffer: number };
  /** The pushed message and everything that was emitted from it have ended. */
  readonly settled: Omit<EventPlace, "node"> & { readonly verdict: MessageOutcome["verdict"] };
  readonly "request-started": Omit<EventPlace, "node">;
  readonly "request-ended": Omit<EventPlace, "node"> & {
    readonly ending: "replied" | "failed" | "timed-out" | "no-reply";
    readonly tookMs: number;
  };
  /** The source's `settled` callback failed, so the source will bring the message again. */
  readonly "not-acknowledged": EventPlace & { readonly error: unknown };
  /** A source failed outside of a message, and is started again. */
  readonly restarted: { readonly network: string; readonly node: string; readonly error: unknown };
  /** The network takes no more messages: it was closed, or it gave up because of `error`. */
  readonly stopped: { readonly network: string; readonly node?: string; readonly error?: unknown };
}

export type PipelineEvent = {
  [Kind in keyof PipelineEventDetails]: { readonly kind: Kind } & PipelineEventDetails[Kind];
}[keyof PipelineEventDetails];

export type ReportEvent = (event: PipelineEvent) => void;
