/** The options of an idempotent tool: their checks and their defaults. */

import { requireGuard } from "../../core/argument-checks.ts";
import type { Engine } from "../../core/engine.ts";
import { NevertwiceError } from "../../core/errors.ts";
import {
  type Check,
  checkOptions,
  givenOptions,
  isBoolean,
  oneOf,
  wholeFrom,
} from "../../core/option-checks.ts";
import { mergePolicy, POLICY_CHECKS, type PolicyOptions, pickPolicies } from "../../core/policy.ts";
import { isOperation } from "../../core/reserved.ts";
import { type AgentScope, isAgentScope, requireScope } from "../agent-scope.ts";
import { isToolKey, type ToolArguments, type ToolKey } from "./tool-key.ts";
import type { RefusalStyle } from "./tool-refusal.ts";

/** The data of a validated access token. */
export interface ToolAuth {
  /** The token itself. */
  readonly token: string;
  /** The client that the token was issued to. */
  readonly clientId: string;
  /** What the token allows. */
  readonly scopes: readonly string[];
  /** What else the verifier of the token found. */
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
}

/** The part of a tool handler's second argument that is used here, in the official server and in its version 1. */
export interface ToolContext {
  readonly sessionId?: string | undefined;
  readonly mcpReq?: { readonly _meta?: object | undefined; readonly signal?: AbortSignal } | undefined;
  readonly http?: { readonly authInfo?: ToolAuth | undefined } | undefined;
  readonly _meta?: object | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly authInfo?: ToolAuth | undefined;
}

/** Options of `idempotentTool`. Every policy option of the guard is allowed too. */
export interface ToolOptions<Context, Required extends boolean = true> extends PolicyOptions {
  /** What the key is for: usually the tool's name. Keep it if the tool is renamed. */
  readonly operation: string;
  /** The owner of a key, from the authenticated context. `anyone`: every caller that knows the key. */
  readonly scope: AgentScope<Context, ToolArguments>;
  /** Where the key is. Default: under the usual names in `_meta`, the arguments, or an argument called `meta`. */
  readonly key?: ToolKey<Context> | undefined;
  /** Whether a call without a key is refused. If false, it runs and nothing is stored. */
  readonly required?: Required | undefined;
  /**
   * The longest key that is accepted, in characters. A longer one is refused with `key-invalid`.
   * @default 255
   */
  readonly maxKeyLength?: number | undefined;
  /**
   * The form that a key must have. Other keys are refused with `key-invalid`.
   * @default none
   */
  readonly keyPattern?: RegExp | undefined;
  /** The content that must not change: the same key with other content is a `conflict`. Default: the arguments without the key. */
  readonly fingerprint?:
    | "arguments"
    | "none"
    | ((args: ToolArguments, context: Context) => unknown)
    | undefined;
  /** Whether an answer with `isError` is stored and replayed. If false, the next call runs the tool again. */
  readonly keepErrors?: boolean | ((result: ToolArguments) => boolean) | undefined;
  /** How a refusal is returned. */
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
  operation: isOperation,
  scope: isAgentScope,
  key: isToolKey,
  required: isBoolean,
  maxKeyLength: wholeFrom(1),
  keyPattern(name, value) {
    // A pattern with these flags has state, and would judge every second key differently.
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

/** The part of a guard that a tool uses. */
export type ToolGuard = Pick<Engine, "tryRun" | "policy">;

export interface ToolSettings<Context>
  extends Omit<ToolOptions<Context, boolean>, keyof typeof TOOL_DEFAULTS> {
  readonly required: boolean;
  readonly maxKeyLength: number;
  readonly fingerprint: NonNullable<ToolOptions<Context>["fingerprint"]>;
  readonly keepErrors: NonNullable<ToolOptions<Context>["keepErrors"]>;
  readonly refusal: RefusalStyle;
  readonly policies: PolicyOptions;
  /** Whether a call with the same arguments has no further effect. */
  readonly isIdempotent: boolean;
}

export function toolSettings<Context>(
  guard: ToolGuard,
  options: ToolOptions<Context, boolean>,
): ToolSettings<Context> {
  requireGuard(guard, "idempotentTool(guard, { operation, scope })");
  checkOptions(options, TOOL_CHECKS);
  if (options.operation === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      'operation is missing: give the name of what the key is for, e.g. "charge".',
    );
  }
  requireScope(options);
  const policies = pickPolicies(options);
  const { onUnavailable } = mergePolicy(guard.policy, policies);
  const { key, required = TOOL_DEFAULTS.required } = options;
  return {
    ...TOOL_DEFAULTS,
    ...givenOptions(options),
    policies,
    isIdempotent: isKeyInArguments(key, required) && onUnavailable !== "proceed",
  } as ToolSettings<Context>;
}

/**
 * Whether equal arguments imply an equal key. A key in `_meta` is not an argument: equal arguments with another key run
 * again, and so does a call that needs no key. What a function uses as the key is not known here.
 */
function isKeyInArguments<Context>(key: ToolKey<Context> | undefined, required: boolean): boolean {
  if (key === "arguments") return true;
  return required && typeof key === "object" && "argument" in key;
}
