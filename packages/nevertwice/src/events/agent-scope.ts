/** The owner of the keys in an agent's calls. The option is required: leaving it out must not share keys between owners. */
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import type { Check } from "../core/option-checks.ts";

/** Returns the owner from the authenticated context of a call. `anyone`: a key belongs to every caller that knows it. */
export type AgentScope<Context, Call> =
  | "anyone"
  | ((context: Context, call: Call) => string | undefined | PromiseLike<string | undefined>);

export const isAgentScope: Check = (name, value) => {
  if (value === "anyone" || typeof value === "function") return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be a function from the authenticated context to its owner, or "anyone".`,
  );
};

/** Throws `options-invalid` if the option is missing. */
export function requireScope(options: { readonly scope?: unknown }): void {
  if (options.scope !== undefined) return;
  throw new NevertwiceError(
    "options-invalid",
    'scope is missing: give a function from the authenticated context to the owner of its keys, or "anyone".',
  );
}

/** Undefined for `anyone`. Throws `scope-missing` for an empty owner: all calls without an owner would share their keys. */
export async function readScope<Context, Call>(
  scope: AgentScope<Context, Call>,
  context: Context,
  call: Call,
): Promise<string | undefined> {
  if (scope === "anyone") return undefined;
  const owner = await scope(context, call);
  if (typeof owner === "string" && owner !== "")
    return checkedPart(owner, "what names the owner of the call (scope)", "request-invalid");
  throw new NevertwiceError(
    "scope-missing",
    "scope(context) returned no owner; authenticate before this call.",
  );
}
