/** The options of a tool that is called once for each key: their checks and their defaults. */
import type { Engine } from "../../core/engine.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { checkedPart } from "../../core/identity.ts";
import {
  type Check,
  checkOptions,
  isBoolean,
  mergePolicy,
  oneOf,
  POLICY_CHECKS,
  type PolicyOptions,
  wholeFrom,
} from "../../core/policy.ts";
import { type AgentScope, isAgentScope, requireScope } from "../agent-scope.ts";
import { isToolKey, type ToolArguments, type ToolKey } from "./tool-key.ts";
import type { RefusalStyle } from "./tool-refusal.ts";

/** What a server knows of a validated access token. */
export interface ToolAuth {
  readonly token: string;
  readonly clientId: string;
  readonly scopes: readonly string[];
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
}

/** What we need of the second argument of a tool's handler, as the official server hands it, and as its version 1 did. */
export interface ToolContext {
  readonly sessionId?: string | undefined;
  readonly mcpReq?: { readonly _meta?: object | undefined; readonly signal?: AbortSignal } | undefined;
  readonly http?: { readonly authInfo?: ToolAuth | undefined } | undefined;
  readonly _meta?: object | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly authInfo?: ToolAuth | undefined;
}

/** docs/agents.md explains each; every policy of the guard may stand beside them. */
export interface ToolOptions<Context, Required extends boolean = true> extends PolicyOptions {
  /** What the key is for: the tool's name, and the same if the tool is renamed. */
  readonly operation: string;
  /** Whom a key belongs to, from the authenticated context; or that it belongs to anyone who knows it. */
  readonly scope: AgentScope<Context, ToolArguments>;
  /** Where the key is. Default: under the names of the field, in `_meta`, the arguments, or an argument called `meta`. */
  readonly key?: ToolKey<Context> | undefined;
  /** Whether a call without a key is refused; else it is run, and nothing is kept of it. */
  readonly required?: Required | undefined;
  readonly maxKeyLength?: number | undefined;
  readonly keyPattern?: RegExp | undefined;
  /** What the call means: the same key with another meaning is a `conflict`. Default: the arguments without the key. */
  readonly fingerprint?:
    | "arguments"
    | "none"
    | ((args: ToolArguments, context: Context) => unknown)
    | undefined;
  /** Whether an answer with `isError` is kept and replayed; else the next call runs again. */
  readonly keepErrors?: boolean | ((result: ToolArguments) => boolean) | undefined;
  /** How a call is told that it is refused. */
  readonly refusal?: RefusalStyle | undefined;
}

const TOOL_DEFAULTS = {
  required: true,
  maxKeyLength: 255,
  fingerprint: "arguments",
  keepErrors: false,
  refusal: "tool-error",
} as const;

const TOOL_CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  operation: (name, value) => void checkedPart(value, name, "options-invalid"),
  scope: isAgentScope,
  key: isToolKey,
  required: isBoolean,
  maxKeyLength: wholeFrom(1),
  keyPattern(name, value) {
    // A pattern that remembers where it stopped would judge every second key differently.
    if (value instanceof RegExp && !value.global && !value.sticky) return;
    throw new NevertwiceError(
      "options-invalid",
      `${name} must be a regular expression without the flags g and y.`,
    );
  },
  fingerprint: (name, value) => typeof value === "function" || oneOf("arguments", "none")(name, value),
  keepErrors: (name, value) => typeof value === "function" || isBoolean(name, value),
  refusal: (name, value) => typeof value === "function" || oneOf("tool-error", "rpc-error")(name, value),
};

/** What a tool needs of a guard. */
export type ToolGuard = Pick<Engine, "tryRun" | "policy">;

export interface ToolSettings<Context>
  extends Omit<ToolOptions<Context, boolean>, keyof typeof TOOL_DEFAULTS> {
  readonly required: boolean;
  readonly maxKeyLength: number;
  readonly fingerprint: NonNullable<ToolOptions<Context>["fingerprint"]>;
  readonly keepErrors: NonNullable<ToolOptions<Context>["keepErrors"]>;
  readonly refusal: RefusalStyle;
  readonly policies: PolicyOptions;
  /** Whether the same arguments again add no effect. */
  readonly isIdempotent: boolean;
}

export function toolSettings<Context>(
  guard: ToolGuard,
  options: ToolOptions<Context, boolean>,
): ToolSettings<Context> {
  checkOptions(options, TOOL_CHECKS);
  if (options.operation === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      'operation is missing: name what the key is for, e.g. "charge".',
    );
  }
  requireScope(options);
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const policies: PolicyOptions = Object.fromEntries(
    given.filter(([name]) => Object.hasOwn(POLICY_CHECKS, name)),
  );
  const { onUnavailable } = mergePolicy(guard.policy, policies);
  const { key, required = TOOL_DEFAULTS.required } = options;
  return {
    ...TOOL_DEFAULTS,
    ...(Object.fromEntries(given) as unknown as ToolOptions<Context, boolean>),
    policies,
    isIdempotent: isKeyInArguments(key, required) && onUnavailable !== "proceed",
  } as ToolSettings<Context>;
}

/**
 * Whether the same arguments are the same key. A key in `_meta` is no argument: the same arguments with another one run
 * again, and so do those of a call that needs none. What a function takes for a key is not known here.
 */
function isKeyInArguments<Context>(key: ToolKey<Context> | undefined, required: boolean): boolean {
  if (key === "arguments") return true;
  return required && typeof key === "object" && "argument" in key;
}
