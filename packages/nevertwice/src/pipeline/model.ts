/**
 * A network that has been read and checked, ready to run. A model is always flat: a node of a network that is used as a
 * node has that network's name as a prefix (`billing/charge`).
 */
import type { Backoff } from "../core/backoff.ts";
import type { Effects } from "./effects.ts";
import type { PushOutcome } from "./message-outcome.ts";

export const KINDS = ["source", "transform", "router", "sink"] as const;
export type Kind = (typeof KINDS)[number];

/** The effects that a node may declare. */
export const AXES = ["http", "db", "time", "random"] as const;
export type Axis = (typeof AXES)[number];

/** A network that was read and checked, flat and ready to run. */
export interface NetworkModel {
  /** The id in the manifest. */
  readonly id: string;
  /** The version in the manifest. */
  readonly version: string;
  /** The nodes, by name. A node of a network that is used as a node has that network's name as a prefix. */
  readonly nodes: ReadonlyMap<string, NodeModel>;
  /** One for each pair of ports: fan-out and merge are several edges. */
  readonly edges: readonly Edge[];
  /** The network's own ports, by name: where messages enter, and where they leave. */
  readonly exposed: {
    /** Where messages enter, by name. */
    readonly in: ReadonlyMap<string, PortRef>;
    /** Where messages leave, by name. */
    readonly out: ReadonlyMap<string, PortRef>;
  };
  /** What happens when a source fails. */
  readonly supervision: Supervision;
}

export interface PortRef {
  readonly node: string;
  readonly port: string;
}

export interface Edge {
  readonly from: PortRef;
  readonly to: PortRef;
}

/** A source that fails outside of a message is restarted. After more than `restarts` failures within `withinMs` the network stops. */
export interface Supervision {
  readonly strategy: "one-for-one" | "one-for-all";
  readonly restarts: number;
  readonly withinMs: number;
}

/** A node of a network. */
export interface NodeModel {
  /** Its name in the network. */
  readonly name: string;
  /** The id in its manifest. */
  readonly id: string;
  /** The version in its manifest. */
  readonly version: string;
  /** What the node does: it brings messages, transforms, routes or ends them. */
  readonly kind: Kind;
  /** For people: what the node is for, and who is responsible. */
  readonly doc: {
    /** What the node is for, in a sentence. */
    readonly intent?: string;
    /** Who is responsible for it. */
    readonly owner?: string;
  };
  /** The in-ports, by name. */
  readonly in: ReadonlyMap<string, InPort>;
  /** The out-ports, by name. */
  readonly out: ReadonlyMap<string, OutPort>;
  /** The code of the node, and what it promises. */
  readonly contract: Contract;
  /** What the node may do to the outside. Using anything else throws. */
  readonly effects: ReadonlyMap<Axis, EffectGrant>;
  /** The `[config]` of its manifest, with the values that the network overrides. Frozen. */
  readonly config: NodeConfig;
  /** Whether and how it collects messages. */
  readonly batch?: Batch;
  /** Whether and how it waits for messages that belong together. */
  readonly join?: Join;
  /** How many messages it starts in a time. */
  readonly rate?: Rate;
  /** How long it holds each message back, in milliseconds. */
  readonly delayMs?: number;
  /** How payloads are shown in events. Without it, they are not. */
  readonly capture?: Capture;
  /** Whether the node may reply to a waiting caller. */
  readonly reply: boolean;
  /** How many messages it processes at once. */
  readonly concurrency: number;
}

/** What a node declares about one kind of effect. */
export interface EffectGrant {
  /** Hosts for http, names of databases for db. An empty list allows all. */
  readonly allow: readonly string[];
  /** http: the methods, in capitals. Absent: all of them. */
  readonly methods?: readonly string[];
  /** db: what the node does to which tables, `charges:insert`. Absent: anything. */
  readonly tables?: readonly string[];
  /** random: which source. Absent: both. */
  readonly grade?: RandomGrade;
}

/** What a node may do to a table. */
export const TABLE_ACTIONS = ["select", "insert", "update", "delete"] as const;

/** `pseudo`: numbers that may be guessed. `crypto`: numbers, bytes and UUIDs of the system's secure source. */
export const RANDOM_GRADES = ["pseudo", "crypto"] as const;
export type RandomGrade = (typeof RANDOM_GRADES)[number];

export type NodeConfig = Readonly<Record<string, unknown>>;

export interface InPort {
  readonly schema: Schema | undefined;
  /** How many messages may wait here before the sender has to wait. */
  readonly buffer: number;
}

export interface OutPort {
  readonly schema: Schema | undefined;
}

/** `name` is the name in the manifest: `Order@1`. `check` returns the payload to use from then on, or throws. */
export interface Schema {
  readonly name: string;
  readonly check: (payload: unknown) => unknown;
}

export interface Contract {
  /** Decides without side effects: the same payload gives the same decision. */
  readonly pureCore: PureCore;
  /** Carries out the decision, and returns what to emit. */
  readonly effectShell: EffectShell;
  /** For one try of core and shell together. */
  readonly timeoutMs?: number;
  readonly retry?: Retry;
  /** `fields`: the payload fields whose values form the key. */
  readonly idempotency?: {
    readonly fields: readonly string[];
    readonly retentionMs?: number;
    readonly onLapsed?: "takeover" | "hold";
  };
}

export interface Retry extends Backoff {
  /** The reasons that are retried. Empty: all except permanent ones. */
  readonly on: readonly string[];
}

/** Collects up to `size` messages, or those that arrive within `withinMs`, and passes their payloads as one list. */
export interface Batch {
  readonly size: number;
  readonly withinMs: number;
}

/** Waits for one message on each in-port with an equal `by`. A message without a match leaves by `deadLetter`, or fails. */
export interface Join {
  readonly by: string;
  readonly withinMs: number;
  readonly deadLetter?: string;
  /** The most incomplete matches that may wait. */
  readonly maxPending: number;
}

export interface Rate {
  readonly limit: number;
  readonly perMs: number;
}

/** How payloads are shown in events: how many bytes of them, and without which fields. */
export interface Capture {
  readonly maxBytes: number;
  readonly redact: readonly string[];
}

/** `port` is the in-port by which the payload arrived. */
export interface Arrival {
  /** The in-port by which the payload arrived. */
  readonly port: string;
  /** The id of the message. */
  readonly id: string;
  /** The ids of the messages that it was made of. */
  readonly parents: readonly string[];
  /** The trace of the pushed message, which all its children share. */
  readonly trace: string;
}

/** The second argument of a core. */
export interface CoreContext extends Arrival {
  /** The `[config]` of the node, with the values that the network overrides. Frozen. */
  readonly config: NodeConfig;
}

export type PureCore = (payload: never, context: CoreContext) => unknown;

/** The argument of a source. `signal` fires when the source must stop. */
export interface SourceContext {
  /** Fires when the source must stop. */
  readonly signal: AbortSignal;
  /** What `[effects]` declares. Using any other effect throws. */
  readonly effects: Effects;
  /** The `[config]` of the node, with the values that the network overrides. Frozen. */
  readonly config: NodeConfig;
}

/** The `effect_shell` of a source. If it throws, no message is to blame: it is called again, as [supervision] allows. */
export type SourceShell = (context: SourceContext) => Pulls | PromiseLike<Pulls>;
/** What a source returns: its messages, one after another. */
export type Pulls = AsyncIterable<Pulled> | Iterable<Pulled>;

/** One message from a source. */
export interface Pulled {
  /** The payload of the message. */
  readonly payload: unknown;
  /** The out-port by which it leaves. Not needed if there is only one. */
  readonly port?: string;
  /**
   * The id of the message, the same on every delivery.
   * @default a random one
   */
  readonly id?: string;
  /**
   * The trace of the message.
   * @default the id
   */
  readonly trace?: string;
  /** Called when the message and everything emitted from it have ended. Acknowledge it here, or have it sent again. */
  readonly settled?: (outcome: PushOutcome) => unknown;
}

/** The second argument of a shell. */
export interface ShellContext extends CoreContext {
  /** What [effects] declares. Using any other effect throws, and is never retried. */
  readonly effects: Effects;
  /** Fires when the claim is lost, the timeout has passed, or the network stops. */
  readonly signal: AbortSignal;
  /** 0 for the first try. */
  readonly attempt: number;
  /** The fence of the claim. Undefined for a node without a key. */
  readonly fence?: number;
  /** A key for another system, the same on every attempt. Throws `key-missing` in a node without a key. */
  deriveKey(name: string): string;
  /** `return emit("charged", payload)`. Return a list to split a message, or `drop(reason)` to filter it. */
  emit(port: string, payload: unknown): Emit;
  /** Ends the message here. The reason is in the event `dropped`. */
  drop(reason?: string): Drop;
  /** Replies to a waiting caller. Only for nodes with `reply = true`. */
  reply(value: unknown): Reply;
}

export type EffectShell = (decided: never, context: ShellContext) => Returned | PromiseLike<Returned>;

/** What a shell returns to send a payload on. Made by `context.emit`. */
export interface Emit {
  /** Tells it apart. */
  readonly kind: "emit";
  /** The out-port. */
  readonly port: string;
  /** The payload. */
  readonly payload: unknown;
}

/** What a shell returns to end the message here. Made by `context.drop`. */
export interface Drop {
  /** Tells it apart. */
  readonly kind: "drop";
  /** Why, for the event. */
  readonly reason?: string;
}

/** What a shell returns to answer a waiting caller. Made by `context.reply`. */
export interface Reply {
  /** Tells it apart. */
  readonly kind: "reply";
  /** What the caller gets. */
  readonly value: unknown;
}

/** `undefined` from a sink or a router counts as an empty list. */
export type Returned = Emit | Drop | Reply | readonly (Emit | Reply)[] | undefined;
