/** The types of manifests that are objects: the same as a TOML file, with functions where a file has references to code. */
import type { EffectShell, Kind, NodeConfig, PureCore, RandomGrade, SourceShell } from "../model.ts";

export interface NetworkManifest {
  readonly network: { readonly id: string; readonly version: string };
  /** By name, `Order@1`: a Standard Schema (an object with `~standard`), or a function that throws for an invalid payload. */
  readonly schemas?: Readonly<Record<string, unknown>>;
  readonly nodes: Readonly<
    Record<string, { readonly use: NodeManifest | NetworkManifest; readonly config?: NodeConfig }>
  >;
  readonly edges?: readonly { readonly from: string; readonly to: string | readonly string[] }[];
  readonly expose?: {
    readonly in?: Readonly<Record<string, string>>;
    readonly out?: Readonly<Record<string, string>>;
  };
  readonly supervision?: {
    readonly strategy?: "one-for-one" | "one-for-all";
    readonly restarts?: number;
    readonly within?: string;
  };
  readonly deploy?: { readonly concurrency?: Readonly<Record<string, number>> };
}

/** Durations are text with a unit, as in files: `"5s"`. */
export interface NodeManifest {
  readonly node: {
    readonly id: string;
    readonly version: string;
    readonly kind: Kind;
    readonly reply?: boolean;
  };
  readonly doc?: { readonly intent?: string; readonly owner?: string };
  readonly ports: {
    readonly in?: Readonly<Record<string, { readonly schema?: string; readonly buffer?: number }>>;
    readonly out?: Readonly<Record<string, { readonly schema?: string }>>;
  };
  readonly effects?: {
    readonly http?: true | { readonly allow: readonly string[]; readonly methods?: readonly string[] };
    readonly db?: true | { readonly allow: readonly string[]; readonly tables?: readonly string[] };
    readonly time?: true;
    readonly random?: true | RandomGrade;
  };
  /** Values that the node's code reads, with their defaults. */
  readonly config?: NodeConfig;
  readonly lint?: { readonly allow: readonly string[] };
  readonly contract: {
    /** Optional for a source. Every other node must have one. */
    readonly pure_core?: PureCore;
    readonly effect_shell: EffectShell | SourceShell;
    readonly timeout?: string;
    readonly retry?: {
      readonly strategy?: "constant" | "linear" | "exponential";
      readonly max: number;
      readonly base?: string;
      readonly cap?: string;
      readonly jitter?: number;
      readonly on?: readonly string[];
    };
    readonly idempotency?: {
      readonly key: string | readonly string[];
      readonly retention?: string;
      readonly on_lapsed?: "takeover" | "hold";
    };
  };
  readonly batch?: { readonly size: number; readonly within: string };
  readonly join?: {
    readonly by: string;
    readonly within: string;
    readonly dead_letter?: string;
    readonly max_pending?: number;
  };
  readonly rate?: { readonly limit: number; readonly per: string };
  readonly delay?: { readonly by: string };
  readonly capture?: { readonly max_bytes?: number; readonly redact?: readonly string[] };
}
