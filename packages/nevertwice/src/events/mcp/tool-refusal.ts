/** What a caller is told of a call that is not run and not replayed: as the answer of the tool, or as an error of JSON-RPC. */
import type { NevertwiceError } from "../../core/errors.ts";

/** An answer that says no. Agents read the text; hosts read `_meta.nevertwice`. */
export interface ToolRefusal {
  [member: string]: unknown;
  content: { type: "text"; text: string }[];
  structuredContent?: Record<string, unknown>;
  isError?: boolean;
  _meta?: Record<string, unknown>;
}

/** What a host can act on. */
export interface RefusalHint {
  readonly code: NevertwiceError["code"];
  /** Whether the same call with the same key may succeed. */
  readonly retryable: boolean;
  readonly retryAfterMs?: number;
}

export type RefusalStyle = "tool-error" | "rpc-error" | ((error: NevertwiceError) => ToolRefusal);

/** Where the hint is. */
export const HINT = "nevertwice";

const RETRY_AFTER_MS = 1_000;

/** "Invalid params", and what is left to servers. */
const INVALID_PARAMS = -32_602;
const SERVER_ERROR = -32_000;

function hintOf({ code, retryable }: NevertwiceError): RefusalHint {
  return { code, retryable, ...(retryable ? { retryAfterMs: RETRY_AFTER_MS } : {}) };
}

/** Throws what a server turns into an error of JSON-RPC, if that is the style. */
export function refuse(style: RefusalStyle, error: NevertwiceError): ToolRefusal {
  if (typeof style === "function") return style(error);
  const hint = hintOf(error);
  if (style === "tool-error") {
    return { content: [{ type: "text", text: error.message }], isError: true, _meta: { [HINT]: hint } };
  }
  const code = error.status === 400 ? INVALID_PARAMS : SERVER_ERROR;
  throw Object.assign(new Error(error.message, { cause: error }), { code, data: hint });
}
