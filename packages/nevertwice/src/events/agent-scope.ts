/** Whose keys those of an agent's call are: decided by whoever wraps the tool or the agent, never by leaving it out. */
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import type { Check } from "../core/policy.ts";

/** From the call's authenticated context to its owner; or that a key belongs to anyone who knows it. */
export type AgentScope<Context, Asked> =
  | "anyone"
  | ((context: Context, asked: Asked) => string | undefined | PromiseLike<string | undefined>);

export const isAgentScope: Check = (name, value) => {
  if (value === "anyone" || typeof value === "function") return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be a function from the authenticated context to its owner, or "anyone".`,
  );
};

/** Nothing is shared because nobody said whose it is. */
export function requireScope(options: { readonly scope?: unknown }): void {
  if (options.scope !== undefined) return;
  throw new NevertwiceError(
    "options-invalid",
    'scope is missing: give a function from the authenticated context to whom its keys belong, or "anyone".',
  );
}

/** Undefined if keys belong to anyone. An owner without a name would share the keys of all others without one. */
export async function scopeOf<Context, Asked>(
  scope: AgentScope<Context, Asked>,
  context: Context,
  asked: Asked,
): Promise<string | undefined> {
  if (scope === "anyone") return undefined;
  const owner = await scope(context, asked);
  if (typeof owner === "string" && owner !== "")
    return checkedPart(owner, "what names the owner of the call (scope)", "request-invalid");
  throw new NevertwiceError("scope-missing", "scope(context) named nobody; authenticate before this call.");
}
