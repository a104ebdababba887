/**
 * A network that has been checked: what manifests come to, and what runs. Names of nodes are those in the network, with
 * the names of networks that are used as nodes in front (`billing/charge`), so a model is always flat.
 */
import type { Backoff } from "../core/backoff.ts";
import type { Effects } from "./effects.ts";
import type { PushOutcome } from "./message.ts";

export const KINDS = ["source", "transform", "router", "sink"] as const;
export type Kind = (typeof KINDS)[number];

/** What nodes may touch besides their input, each only if declared. */
export const AXES = ["http", "db", "time", "random"] as const;
export type Axis = (typeof AXES)[number];

export interface NetworkModel {
  readonly id: string;
  readonly version: string;
  readonly nodes: ReadonlyMap<string, NodeModel>;
  /** One for each pair of ports: fan-out and merge are several. */
  readonly edges: readonly Edge[];
  /** Ports of the network, by name: where messages come in, and where they leave. */
  readonly exposed: { readonly in: ReadonlyMap<string, PortRef>; readonly out: ReadonlyMap<string, PortRef> };
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

/** A node whose code fails outside of a message is started again, so often within so long; then the network stops. */
export interface Supervision {
  readonly strategy: "one-for-one" | "one-for-all";
  readonly restarts: number;
  readonly withinMs: number;
}

export interface NodeModel {
  /** Its name in the network. */
  readonly name: string;
  /** What its manifest calls it. */
  readonly id: string;
  readonly version: string;
  readonly kind: Kind;
  readonly doc: { readonly intent?: string; readonly owner?: string };
  readonly in: ReadonlyMap<string, InPort>;
  readonly out: ReadonlyMap<string, OutPort>;
  readonly contract: Contract;
  /** Declared axes; `allow` are hosts for http, names for db, and empty for all of the axis. */
  readonly effects: ReadonlyMap<Axis, { readonly allow: readonly string[] }>;
  readonly batch?: Batch;
  readonly join?: Join;
  readonly rate?: Rate;
  readonly delayMs?: number;
  readonly capture?: Capture;
  /** Whether what this node returns answers a waiting caller. */
  readonly reply: boolean;
  /** How many messages it works on at once. */
  readonly concurrency: number;
}

export interface InPort {
  readonly schema: Schema | undefined;
  /** How many messages wait before whoever pushes has to. */
  readonly buffer: number;
}

export interface OutPort {
  readonly schema: Schema | undefined;
}

/** `name` is as in the manifest: `Order@1`. The check answers what the payload is afterwards, or throws why it cannot be. */
export interface Schema {
  readonly name: string;
  readonly check: (payload: unknown) => unknown;
}

export interface Contract {
  /** Decides, touches nothing: the same payload gives the same answer. */
  readonly pureCore: PureCore;
  /** Does what was decided, and says what goes on from here. */
  readonly effectShell: EffectShell;
  /** Of one try of both. */
  readonly timeoutMs?: number;
  readonly retry?: Retry;
  /** The fields whose values make the key. */
  readonly idempotency?: {
    readonly fields: readonly string[];
    readonly retentionMs?: number;
    readonly onLapsed?: "takeover" | "hold";
  };
}

export interface Retry extends Backoff {
  /** Reasons that are tried again; empty for all that are not permanent. */
  readonly on: readonly string[];
}

/** Collects up to `size` messages, or what came within `withinMs`, and hands the payloads over as one list. */
export interface Batch {
  readonly size: number;
  readonly withinMs: number;
}

/** Waits for one message on each in-port with equal `by`; what has no match in time leaves by `deadLetter`, or fails. */
export interface Join {
  readonly by: string;
  readonly withinMs: number;
  readonly deadLetter?: string;
  /** How many keys wait at most. */
  readonly maxPending: number;
}

export interface Rate {
  readonly limit: number;
  readonly perMs: number;
}

/** Which payloads are shown to whoever watches, how much of them, and without which fields. */
export interface Capture {
  readonly maxBytes: number;
  readonly redact: readonly string[];
}

/** `port` names the in-port that the payload came by. */
export interface Arrival {
  readonly port: string;
  readonly id: string;
  readonly parents: readonly string[];
  readonly trace: string;
}

export type PureCore = (payload: never, arrival: Arrival) => unknown;

/** What a source is handed: `signal` fires when it is to stop bringing messages. */
export interface SourceContext {
  readonly signal: AbortSignal;
  readonly effects: Effects;
}

/** The `effect_shell` of a source. What it throws is no message's fault: it is called again, as [supervision] says. */
export type SourceShell = (context: SourceContext) => Pulls | PromiseLike<Pulls>;
export type Pulls = AsyncIterable<Pulled> | Iterable<Pulled>;

/** One message that a source brings. */
export interface Pulled {
  readonly payload: unknown;
  /** The out-port that it leaves by; not needed if there is only one. */
  readonly port?: string;
  readonly id?: string;
  readonly trace?: string;
  /** Told what became of it and of all that came of it: acknowledge it there, or have it sent again. */
  readonly settled?: (outcome: PushOutcome) => unknown;
}

export interface ShellContext extends Arrival {
  /** What is declared under [effects]; touching anything else throws, and is never tried again. */
  readonly effects: Effects;
  /** Fires when the claim is lost, the timeout is over, or the network stops. */
  readonly signal: AbortSignal;
  /** 0 for the first try. */
  readonly attempt: number;
  /** The fence of the claim; undefined for a node without a key. */
  readonly fence?: number;
  /** A key for another system, the same on every attempt. Only for nodes with a key. */
  deriveKey(name: string): string;
  /** `return emit("charged", payload)`; return a list of them to split, `drop(reason)` to filter. */
  emit(port: string, payload: unknown): Emit;
  drop(reason?: string): Drop;
  /** Answers a waiting caller; only for nodes with `reply`. */
  reply(value: unknown): Reply;
}

export type EffectShell = (decided: never, context: ShellContext) => Returned | PromiseLike<Returned>;

export interface Emit {
  readonly kind: "emit";
  readonly port: string;
  readonly payload: unknown;
}

export interface Drop {
  readonly kind: "drop";
  readonly reason?: string;
}

export interface Reply {
  readonly kind: "reply";
  readonly value: unknown;
}

/** Nothing returned by a sink or a router counts as an empty list. */
export type Returned = Emit | Drop | Reply | readonly (Emit | Reply)[] | undefined;
