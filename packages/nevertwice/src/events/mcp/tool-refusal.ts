/** The response to a call that is neither run nor replayed: an answer of the tool, or a JSON-RPC error. */
import type { NevertwiceError } from "../../core/errors.ts";

/** A refusal as a tool's answer. Agents read the text; hosts read `_meta.nevertwice`. */
export interface ToolRefusal {
  [member: string]: unknown;
  /** The text that the agent reads. */
  content: {
    /** Always text. */
    type: "text";
    /** What was wrong, and whether a retry can help. */
    text: string;
  }[];
  /** The same for programs, if the tool has an output schema. */
  structuredContent?: Record<string, unknown>;
  /** True, so that the agent does not take the text for a result. */
  isError?: boolean;
  /** What hosts read: the code, whether to retry, and when. */
  _meta?: Record<string, unknown>;
}

/** What a host can act on, in machine-readable form. */
export interface RefusalHint {
  /** The error code. */
  readonly code: NevertwiceError["code"];
  /** Whether the same call with the same key may succeed. */
  readonly retryable: boolean;
  /** How long to wait before a retry, in milliseconds. */
  readonly retryAfterMs?: number;
}

/** How a call is refused: as the answer of a tool, as a JSON-RPC error, or as your own answer. */
export type RefusalStyle = "tool-error" | "rpc-error" | ((error: NevertwiceError) => ToolRefusal);

/** The name of the hint in `_meta`. */
export const HINT_NAME = "nevertwice";

const RETRY_AFTER_MS = 1_000;

/** The JSON-RPC code "Invalid params", and the first of the codes that are reserved for servers. */
const INVALID_PARAMS = -32_602;
const SERVER_ERROR = -32_000;

function refusalHint({ code, retryable }: NevertwiceError): RefusalHint {
  return { code, retryable, ...(retryable ? { retryAfterMs: RETRY_AFTER_MS } : {}) };
}

/** With the style `rpc-error`, throws an error that the server turns into a JSON-RPC error. */
export function refuse(style: RefusalStyle, error: NevertwiceError): ToolRefusal {
  if (typeof style === "function") return style(error);
  const hint = refusalHint(error);
  if (style === "tool-error") {
    return { content: [{ type: "text", text: error.message }], isError: true, _meta: { [HINT_NAME]: hint } };
  }
  const code = error.status === 400 ? INVALID_PARAMS : SERVER_ERROR;
  throw Object.assign(new Error(error.message, { cause: error }), { code, data: hint });
}
