/** Calls a tool with retries that all carry the same key, so that the tool runs once. */
import { type BackoffOptions, backoffMs, pause, toBackoff } from "../../core/backoff.ts";
import { systemTimer } from "../../core/clock.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { checkOptions, isText } from "../../core/option-checks.ts";
import { isKeyPlace, type KeyPlace, type ToolArguments } from "./tool-key.ts";
import { HINT_NAME, type RefusalHint } from "./tool-refusal.ts";

/**
 * The part of an MCP client that is used here. Version 2 of the SDK has `callTool(params, options)`, version 1
 * `callTool(params, resultSchema, options)`.
 */
export interface ToolClient {
  callTool(params: never, second?: never, third?: never): Promise<unknown>;
}

type CallParams<Client extends ToolClient> = Parameters<Client["callTool"]>[0];
type CallOptions<Client extends ToolClient> =
  Required<Parameters<Client["callTool"]>> extends [unknown, unknown, infer Options]
    ? Options
    : Parameters<Client["callTool"]>[1];
type ToolCallResult<Client extends ToolClient> = Awaited<ReturnType<Client["callTool"]>>;

/** Options of `callOnce`: where the tool reads its key, and how the call is retried. */
export interface CallOnceOptions<Options> {
  /** Where this tool reads its key. Required: a tool that reads no key would run once for each try. */
  readonly place: KeyPlace;
  /** Default: a random one. To continue after a crash, give the key that you stored. */
  readonly key?: string | undefined;
  /** Default: 4 retries within about 3 s. */
  readonly retry?: BackoffOptions | undefined;
  /** Options for the client, used for every try. Their `signal` also ends the retries. */
  readonly request?: Options | undefined;
}

const RETRY = { max: 4, baseMs: 200, capMs: 5_000 } as const;

/**
 * The codes by which the clients of SDK 1 say themselves that no answer came: the connection was closed, or the time was up. A
 * server may use the first one too, and then says in `data` whether the call may be repeated.
 */
const UNANSWERED: readonly unknown[] = [-32_000, -32_001];

/** HTTP statuses in the 400s after which the call may be repeated. */
const TEMPORARY_STATUSES = [408, 425, 429];

/**
 * Calls the tool until it answers. Retries if no answer came, or if the answer says that the same call may be repeated. Any
 * other answer is returned unchanged, or thrown if it is an error.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { Client } from "@modelcontextprotocol/client";
 * import { callOnce } from "nevertwice/events/mcp";
 *
 * export function charge(client: Client, amount: number, key: string) {
 *   const call = { name: "charge", arguments: { amount } };
 *   return callOnce(client, call, { place: { argument: "idempotency_key" }, key });
 * }
 * ```
 */
export async function callOnce<Client extends ToolClient>(
  client: Client,
  params: CallParams<Client>,
  options: CallOnceOptions<CallOptions<Client>>,
): Promise<ToolCallResult<Client>> {
  checkOptions(options, { place: isKeyPlace, key: isText, retry: () => {}, request: () => {} });
  const { place, key = crypto.randomUUID(), retry, request } = options;
  if (place === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      'place is missing: give the place where the tool reads its key, e.g. { argument: "idempotency_key" }.',
    );
  }
  const backoff = toBackoff({ ...RETRY, ...retry });
  const keyed = withKey(params, place, key) as CallParams<Client>;
  const { signal } = (request ?? {}) as { readonly signal?: AbortSignal };
  for (let tries = 1; ; tries++) {
    const end = await attemptCall(() => sendCall(client, keyed, request));
    const hint = retryHint(end);
    if (hint === undefined || tries > backoff.max || signal?.aborted) {
      if ("error" in end) throw end.error;
      return end.result as ToolCallResult<Client>;
    }
    const afterMs = Math.max(backoffMs(backoff, tries, Math.random()), hint.retryAfterMs ?? 0);
    await pause(systemTimer, afterMs, signal);
  }
}

/** In SDK 1, the schema has a default, so only the parameters count for the length of the function. */
function sendCall(client: ToolClient, keyed: unknown, request: unknown): Promise<unknown> {
  return client.callTool.length === 1
    ? client.callTool(keyed as never, undefined, request as never)
    : client.callTool(keyed as never, request as never);
}

type CallEnd = { readonly result: unknown } | { readonly error: unknown };

async function attemptCall(call: () => Promise<unknown>): Promise<CallEnd> {
  try {
    return { result: await call() };
  } catch (error) {
    return { error };
  }
}

/** Undefined if the call must not be repeated. */
function retryHint(end: CallEnd): { readonly retryAfterMs?: number } | undefined {
  if ("result" in end) {
    const { _meta } = (end.result ?? {}) as { readonly _meta?: ToolArguments };
    return ifRetryable(_meta?.[HINT_NAME]);
  }
  const { code, data, status } = (end.error ?? {}) as {
    readonly code?: unknown;
    readonly data?: unknown;
    readonly status?: unknown;
  };
  if (UNANSWERED.includes(code) && !isHint(data)) return {};
  // Any other numeric code is an error response of the server. Without one there was no response.
  if (Number.isInteger(code)) return ifRetryable(data);
  const isRefused = typeof status === "number" && status >= 400 && status < 500;
  return isRefused && !TEMPORARY_STATUSES.includes(status) ? undefined : {};
}

function isHint(data: unknown): boolean {
  return typeof (data as Partial<RefusalHint> | null | undefined)?.retryable === "boolean";
}

function ifRetryable(hint: unknown): { readonly retryAfterMs?: number } | undefined {
  const { retryable, retryAfterMs } = (hint ?? {}) as Partial<RefusalHint>;
  if (retryable !== true) return undefined;
  return typeof retryAfterMs === "number" ? { retryAfterMs } : {};
}

function withKey(
  params: { readonly arguments?: object; readonly _meta?: object },
  place: KeyPlace,
  key: string,
): object {
  if ("meta" in place) return { ...params, _meta: { ...params._meta, [place.meta]: key } };
  return { ...params, arguments: withMember(params.arguments, place.argument.split("."), key) };
}

function withMember(
  object: object | undefined,
  [name = "", ...rest]: readonly string[],
  key: string,
): object {
  const inner = (object as ToolArguments | undefined)?.[name];
  return { ...object, [name]: rest.length === 0 ? key : withMember(inner as object | undefined, rest, key) };
}
