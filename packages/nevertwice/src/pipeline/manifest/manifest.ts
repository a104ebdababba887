/** The types of manifests that are objects: the same as a TOML file, with functions where a file has references to code. */
import type { EffectShell, Kind, NodeConfig, PureCore, RandomGrade, SourceShell } from "../model.ts";

/** A network as an object: the same as its TOML file. */
export interface NetworkManifest {
  /** The network itself. */
  readonly network: {
    /** Names the network in events and records. Keep it when the network changes. */
    readonly id: string;
    /** The version of the network, for operators. */
    readonly version: string;
  };
  /** By name, `Order@1`: a Standard Schema (an object with `~standard`), or a function that throws for an invalid payload. */
  readonly schemas?: Readonly<Record<string, unknown>>;
  /** The nodes, by the name that the edges use. */
  readonly nodes: Readonly<
    Record<
      string,
      {
        /** The manifest of the node: in TOML a path, in code the object. */
        readonly use: NodeManifest | NetworkManifest;
        /** Values for the `[config]` of the node, which replace those of its manifest. */
        readonly config?: NodeConfig;
      }
    >
  >;
  /** Which port leads where. */
  readonly edges?: readonly {
    /** A node and its out-port: `charge.charged`. The port may be left out if there is only one. */
    readonly from: string;
    /** One or several nodes and in-ports. */
    readonly to: string | readonly string[];
  }[];
  /** The network's own ports, for `push` and for networks that use this one. */
  readonly expose?: {
    /** Where messages enter, by the name outside: a node and its in-port. */
    readonly in?: Readonly<Record<string, string>>;
    /** Where messages leave, by the name outside: a node and its out-port. */
    readonly out?: Readonly<Record<string, string>>;
  };
  /** What happens when a source fails outside of a message. */
  readonly supervision?: {
    /**
     * Whether only the source that failed is restarted, or all of them.
     * @default "one-for-one"
     */
    readonly strategy?: "one-for-one" | "one-for-all";
    /** How many failures are allowed within `within`. One more stops the network. */
    readonly restarts?: number;
    /** The time in which failures are counted: `60s`. */
    readonly within?: string;
  };
  /** Settings of a deployment. */
  readonly deploy?: {
    /** How many messages each node processes at once, by the node's name. */
    readonly concurrency?: Readonly<Record<string, number>>;
  };
}

/** Durations are text with a unit, as in files: `"5s"`. */
export interface NodeManifest {
  /** The node itself. */
  readonly node: {
    /** Names the node in its records. Keep it when the node is renamed in a network. */
    readonly id: string;
    /** The version of the node, for operators. */
    readonly version: string;
    /** What the node does: it brings messages, transforms, routes or ends them. */
    readonly kind: Kind;
    /**
     * Whether the node may reply to a waiting caller.
     * @default false
     */
    readonly reply?: boolean;
  };
  /** For people. */
  readonly doc?: {
    /** What the node is for, in a sentence. */
    readonly intent?: string;
    /** Who is responsible for it. */
    readonly owner?: string;
  };
  /** Where messages enter and leave. */
  readonly ports: {
    /** The in-ports, by name. */
    readonly in?: Readonly<
      Record<
        string,
        {
          /** The name of the schema that payloads must match: `Order@1`. Without it, any payload is accepted. */
          readonly schema?: string;
          /** How many messages may wait here before the sender has to wait. */
          readonly buffer?: number;
        }
      >
    >;
    /** The out-ports, by name. */
    readonly out?: Readonly<
      Record<
        string,
        {
          /** The name of the schema that payloads must match: `Order@1`. Without it, any payload is accepted. */
          readonly schema?: string;
        }
      >
    >;
  };
  /** What the node may do to the outside. Anything else throws. */
  readonly effects?: {
    /** HTTP requests: all of them, or only some. */
    readonly http?:
      | true
      | {
          /** The hosts that may be called. */
          readonly allow: readonly string[];
          /** The methods that may be used. Without it, all. */
          readonly methods?: readonly string[];
        };
    /** Databases: all of them, or only some. */
    readonly db?:
      | true
      | {
          /** The names of the databases. */
          readonly allow: readonly string[];
          /** What is done to which tables: `charges:insert`. Without it, anything. */
          readonly tables?: readonly string[];
        };
    /** The current time. */
    readonly time?: true;
    /** Random numbers: all sources, or one of them. */
    readonly random?: true | RandomGrade;
  };
  /** Values that the node's code reads, with their defaults. */
  readonly config?: NodeConfig;
  /** Rules of the linter that do not count for this node. */
  readonly lint?: {
    /** The names of the rules. */
    readonly allow: readonly string[];
  };
  /** The code of the node, and what it promises. */
  readonly contract: {
    /** Optional for a source. Every other node must have one. */
    readonly pure_core?: PureCore;
    /** Carries out what the core has decided, and returns what to emit. */
    readonly effect_shell: EffectShell | SourceShell;
    /** The longest time for one try of core and shell: `5s`. Without it, there is none. */
    readonly timeout?: string;
    /** When a failed try is repeated, and how often. Without it, never. */
    readonly retry?: {
      /**
       * How the pauses grow.
       * @default "exponential"
       */
      readonly strategy?: "constant" | "linear" | "exponential";
      /** The most retries in one delivery. */
      readonly max: number;
      /** The first pause: `200ms`. */
      readonly base?: string;
      /** The longest pause: `10s`. */
      readonly cap?: string;
      /** How much of a pause is random, from 0 to 1. */
      readonly jitter?: number;
      /**
       * The reasons that are retried.
       * @default all but permanent ones
       */
      readonly on?: readonly string[];
    };
    /** The node's key. Without it, the node runs for every delivery. */
    readonly idempotency?: {
      /** The field of the payload, or the fields, whose values form the key. */
      readonly key: string | readonly string[];
      /** How long an outcome is kept: `24h`. */
      readonly retention?: string;
      /**
       * What happens to a key whose attempt has lapsed: the next delivery runs it, or it waits for a
       * decision.
       * @default "takeover"
       */
      readonly on_lapsed?: "takeover" | "hold";
    };
  };
  /** Collects messages and passes their payloads as one list. */
  readonly batch?: {
    /** How many messages a list has at most. */
    readonly size: number;
    /** How long to wait for them: `1s`. */
    readonly within: string;
  };
  /** Waits for one message on each in-port that belong together. */
  readonly join?: {
    /** The field of the payload that must be equal. */
    readonly by: string;
    /** How long to wait for the others: `10m`. */
    readonly within: string;
    /** The out-port for messages without a match. Without it, they fail. */
    readonly dead_letter?: string;
    /** The most incomplete matches that may wait. */
    readonly max_pending?: number;
  };
  /** How many messages the node starts in a time. */
  readonly rate?: {
    /** How many messages. */
    readonly limit: number;
    /** In which time: `1s`. */
    readonly per: string;
  };
  /** Holds each message back. */
  readonly delay?: {
    /** For how long: `5m`. */
    readonly by: string;
  };
  /** Shows payloads in events. Without it, no event contains one. */
  readonly capture?: {
    /** How many bytes of a payload are shown. */
    readonly max_bytes?: number;
    /** The fields that are left out. */
    readonly redact?: readonly string[];
  };
}
