/** Whether a call of a tool may be made again when nobody knows what became of it. */
import { checkOptions, isBoolean } from "../../core/policy.ts";
import { KEY_NAMES, type ToolArguments } from "./tool-key.ts";

/** What we need of a tool, as a server lists it. */
export interface ListedTool {
  readonly annotations?:
    | { readonly readOnlyHint?: boolean | undefined; readonly idempotentHint?: boolean | undefined }
    | undefined;
  readonly inputSchema?: { readonly properties?: object | undefined } | undefined;
}

export interface MayRetryOptions {
  /** Whether you trust the server. What a server says of its own tools is worth nothing if you do not. */
  readonly trusted?: boolean | undefined;
  /** The arguments of the call: with a key among them that the tool asks for, it may be made again. */
  readonly arguments?: ToolArguments | undefined;
}

/**
 * False unless a server that is trusted says that the same call again does no harm: it only reads, it is idempotent, or
 * it asks for a key and the call has one. A tool that says nothing is neither.
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
