/** A call of a tool that keeps its key over its tries: made before the first, so that none of them is a second call. */
import { type BackoffOptions, backoffMs, backoffOf, pause } from "../../core/backoff.ts";
import { systemTimer } from "../../core/clock.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { checkOptions, isText } from "../../core/policy.ts";
import { isKeyPlace, type KeyPlace, type ToolArguments } from "./tool-key.ts";
import { HINT, type RefusalHint } from "./tool-refusal.ts";

/** What we need of a client. */
export interface ToolClient {
  callTool(params: never, options?: never): Promise<unknown>;
}

type ParamsOf<Client extends ToolClient> = Parameters<Client["callTool"]>[0];
type OptionsOf<Client extends ToolClient> = Parameters<Client["callTool"]>[1];
type ResultOf<Client extends ToolClient> = Awaited<ReturnType<Client["callTool"]>>;

export interface CallOnceOptions<Options> {
  /** Where this tool reads its key. Always given: a tool that reads none would be called twice. */
  readonly place: KeyPlace;
  /** Default: a random one. Give the one that you stored, to go on after a crash. */
  readonly key?: string | undefined;
  /** Default: 4 more tries, over some 3 s. */
  readonly retry?: BackoffOptions | undefined;
  /** What the client is handed with every try. Its `signal` ends the tries too. */
  readonly request?: Options | undefined;
}

const RETRY = { max: 4, baseMs: 200, capMs: 5_000 } as const;

/** The answer of a server that refuses a call, and says that it may be made again. */
const TEMPORARY_STATUSES = [408, 425, 429];

/**
 * Calls the tool until it answers: again if no answer came, or one that says that the same call may be made again. What
 * else a server answers is given as it is, and thrown if it is an error.
 */
export async function callOnce<Client extends ToolClient>(
  client: Client,
  params: ParamsOf<Client>,
  options: CallOnceOptions<OptionsOf<Client>>,
): Promise<ResultOf<Client>> {
  checkOptions(options, { place: isKeyPlace, key: isText, retry: () => {}, request: () => {} });
  const { place, key = crypto.randomUUID(), retry, request } = options;
  if (place === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      'place is missing: say where the tool reads its key, e.g. { argument: "idempotency_key" }.',
    );
  }
  const backoff = backoffOf({ ...RETRY, ...retry });
  const keyed = withKey(params, place, key) as ParamsOf<Client>;
  const { signal } = (request ?? {}) as { readonly signal?: AbortSignal };
  for (let tries = 1; ; tries++) {
    const end = await ended(() => client.callTool(keyed as never, request as never));
    const hint = retryHint(end);
    if (hint === undefined || tries > backoff.max || signal?.aborted) {
      if ("error" in end) throw end.error;
      return end.result as ResultOf<Client>;
    }
    const afterMs = Math.max(backoffMs(backoff, tries, Math.random()), hint.retryAfterMs ?? 0);
    await pause(systemTimer, afterMs, signal);
  }
}

type End = { readonly result: unknown } | { readonly error: unknown };

async function ended(call: () => Promise<unknown>): Promise<End> {
  try {
    return { result: await call() };
  } catch (error) {
    return { error };
  }
}

/** Undefined if another try is not called for. */
function retryHint(end: End): { readonly retryAfterMs?: number } | undefined {
  if ("result" in end) {
    const { _meta } = (end.result ?? {}) as { readonly _meta?: ToolArguments };
    return ifRetryable(_meta?.[HINT]);
  }
  const { code, data, status } = (end.error ?? {}) as {
    readonly code?: unknown;
    readonly data?: unknown;
    readonly status?: unknown;
  };
  // A number is an error that the server answered; without one there was no answer.
  if (Number.isInteger(code)) return ifRetryable(data);
  const isRefused = typeof status === "number" && status >= 400 && status < 500;
  return isRefused && !TEMPORARY_STATUSES.includes(status) ? undefined : {};
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
