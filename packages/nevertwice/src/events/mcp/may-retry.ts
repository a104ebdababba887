/** Decides whether a call of a tool may be repeated when its outcome is unknown. */
import { checkOptions, isBoolean } from "../../core/option-checks.ts";
import { KEY_NAMES, type ToolArguments } from "./tool-key.ts";

/** The part of a listed tool that is used here. */
export interface ListedTool {
  readonly annotations?:
    | { readonly readOnlyHint?: boolean | undefined; readonly idempotentHint?: boolean | undefined }
    | undefined;
  readonly inputSchema?: { readonly properties?: object | undefined } | undefined;
}

export interface MayRetryOptions {
  /** Whether you trust the server. The hints of an untrusted server are ignored. */
  readonly trusted?: boolean | undefined;
  /** The arguments of the call. If they contain a key that the tool declares, the call may be repeated. */
  readonly arguments?: ToolArguments | undefined;
}

/**
 * True only if a trusted server declares that a repeated call does no harm: the tool only reads, it is idempotent, or it
 * declares a key and the call has one. False for a tool without such hints.
 * @throws `options-invalid`
 */
export function mayRetry(tool: ListedTool, options: MayRetryOptions = {}): boolean {
  checkOptions(options, { trusted: isBoolean, arguments: () => {} });
  if (options.trusted !== true) return false;
  const { readOnlyHint, idempotentHint } = tool.annotations ?? {};
  return readOnlyHint === true || idempotentHint === true || isKeyed(tool, options.arguments ?? {});
}

function isKeyed({ inputSchema }: ListedTool, args: ToolArguments): boolean {
  const properties = inputSchema?.properties ?? {};
  return KEY_NAMES.some((name) => {
    const key = Object.hasOwn(args, name) ? args[name] : undefined;
    return Object.hasOwn(properties, name) && typeof key === "string" && key !== "";
  });
}
