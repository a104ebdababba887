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
  readonly entered: EventPlace & {
    /** The exposed in-port, or the out-port of the source. */
    readonly port: string;
  };
  /** A node starts to work on a message. `captured` is the payload. */
  readonly started: EventPlace & {
    /** The payload, as `[capture]` shows it. */
    readonly captured?: CapturedPayload;
  };
  /** The node is done; if it has a key, its output is stored. `captured` are the payloads that it emits. */
  readonly completed: EventPlace & {
    /** Which try of core and shell it was; 0 for the first one. */
    readonly attempt: number;
    /** How long it ran, in milliseconds. */
    readonly ranMs: number;
    /** How many messages it emitted. */
    readonly emits: number;
    /** The out-ports that it emitted by, each once. */
    readonly ports: readonly string[];
    /** The payloads that it emitted, as `[capture]` shows them. */
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
    /** How long the pause is, in milliseconds. */
    readonly afterMs: number;
    /** The number of the next try. */
    readonly attempt: number;
    /** Why the try failed. */
    readonly reason: string;
    /** The error that was thrown. */
    readonly error: unknown;
  };
  /** A retry was due, but the network stops. The key is released. */
  readonly "retry-lost": EventPlace & {
    /** The number of the try that failed; 0 for the first one. */
    readonly attempt: number;
    /** Why the try before it failed. */
    readonly reason: string;
    /** The error that was thrown. */
    readonly error: unknown;
  };
  /** An earlier delivery completed the key: the node did not run. */
  readonly duplicate: EventPlace;
  /** The node returned `drop()`. */
  readonly dropped: EventPlace & {
    /** What `drop` was called with. */
    readonly reason?: string;
  };
  /** A message found no match in a [join], and leaves by the dead-letter port. */
  readonly "dead-lettered": EventPlace & {
    /** The dead-letter port. */
    readonly port: string;
  };
  /** An earlier delivery ended here: the node's stored output is forwarded again, and the node does not run again. */
  readonly recovered: EventPlace;
  /** The node's output could not be stored, so it could not be forwarded after a crash. */
  readonly "not-kept": EventPlace;
  /** The node's output, or that of one port, could not be sent. The node does not run again for it. */
  readonly "dispatch-failed": EventPlace &
    Pick<Failure, "reason" | "error"> & {
      /** The out-port that could not be sent; absent if it was the whole output. */
      readonly port?: string;
    };
  /** A buffer is full: the sender waits. */
  readonly "back-pressure": EventPlace & {
    /** The in-port that is full. */
    readonly port: string;
    /** How many messages it holds. */
    readonly buffer: number;
  };
  /** The pushed message and everything that was emitted from it have ended. */
  readonly settled: Omit<EventPlace, "node"> & {
    /** What the sender of the message was told. */
    readonly verdict: MessageOutcome["verdict"];
  };
  /** A caller waits for a reply. */
  readonly "request-started": Omit<EventPlace, "node">;
  /** A waiting caller got its answer, or none. */
  readonly "request-ended": Omit<EventPlace, "node"> & {
    /** How it ended. */
    readonly ending: "replied" | "failed" | "timed-out" | "no-reply";
    /** How long the caller waited, in milliseconds. */
    readonly tookMs: number;
  };
  /** The source's `settled` callback failed, so the source will bring the message again. */
  readonly "not-acknowledged": EventPlace & {
    /** What `settled` threw. */
    readonly error: unknown;
  };
  /** A source failed outside of a message, and is started again. */
  readonly restarted: {
    /** The id of the network. */
    readonly network: string;
    /** The name of the source. */
    readonly node: string;
    /** What the source threw. */
    readonly error: unknown;
  };
  /** The network takes no more messages: it was closed, or it gave up because of `error`. */
  readonly stopped: {
    /** The id of the network. */
    readonly network: string;
    /** The source that failed too often; absent if the network was closed. */
    readonly node?: string;
    /** Why the network gave up; absent if it was closed. */
    readonly error?: unknown;
  };
}

/** What a pipeline reports to `onEvent`. */
export type PipelineEvent = {
  [Kind in keyof PipelineEventDetails]: {
    /** Which event this is. */
    readonly kind: Kind;
  } & PipelineEventDetails[Kind];
}[keyof PipelineEventDetails];

export type ReportEvent = (event: PipelineEvent) => void;
