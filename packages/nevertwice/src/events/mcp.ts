/**
 * A tool of an MCP server that runs once for each key. A repeated call, for example after a lost response or from an agent
 * that starts over, gets the answer of the first call.
 */
import type { Attempt } from "../core/attempt.ts";
import { doorRules } from "../core/door-rules.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { parsedJson } from "../core/fingerprint.ts";
import { isPlainObject } from "../core/plain-object.ts";
import type { FailureDisposition } from "../core/policy.ts";
import type { RunRequest } from "../core/request.ts";
import { type RunResult, toError } from "../core/result.ts";
import { readScope } from "./agent-scope.ts";
import { readKey, type ToolArguments, withoutKey } from "./mcp/tool-key.ts";
import {
  type ToolContext,
  type ToolGuard,
  type ToolOptions,
  type ToolSettings,
  toolSettings,
} from "./mcp/tool-options.ts";
import { refuse, type ToolRefusal } from "./mcp/tool-refusal.ts";

export { type CallOnceOptions, callOnce, type ToolClient } from "./mcp/call-once.ts";
export { type ListedTool, mayRetry } from "./mcp/may-retry.ts";
export type { KeyPlace, ToolArguments, ToolKey } from "./mcp/tool-key.ts";
export type { ToolAuth, ToolContext, ToolGuard, ToolOptions } from "./mcp/tool-options.ts";
export type { RefusalHint, RefusalStyle, ToolRefusal } from "./mcp/tool-refusal.ts";

/** Undefined only in a call without a key, which needs a tool with `required: false`. */
export type AttemptOf<Required extends boolean> = Required extends true ? Attempt : Attempt | undefined;

/** A handler for `registerTool`. */
export type ToolHandler<Call extends readonly unknown[], Result> = (
  ...call: Call
) => Promise<Result | ToolRefusal>;

/** What `idempotentTool` returns: the handler, and what a tool's registration says about its key. */
export interface IdempotentTool<Context, Required extends boolean> {
  /**
   * Adds an `idempotentHint` to the annotations. It is true only if every call has its key among its arguments. An
   * `idempotentHint` that you give stays.
   */
  annotations<Given extends object>(
    given?: Given,
  ): Given & {
    /** True: a host may repeat the call. */
    idempotentHint: boolean;
  };
  /** The handler that runs `work` once for each key. */
  handler<Args, Own extends Context, Result extends object>(
    work: (args: Args, context: Own, attempt: AttemptOf<Required>) => Result | PromiseLike<Result>,
  ): ToolHandler<[args: Args, context: Own], Result>;
  /** The same for a tool without an input schema, whose handler gets only the context. */
  handlerWithoutArguments<Own extends Context, Result extends object>(
    work: (context: Own, attempt: AttemptOf<Required>) => Result | PromiseLike<Result>,
  ): ToolHandler<[context: Own], Result>;
}

/** An operator or another program may have written the record. */
const RULES = doorRules({ judgeReplay: (value) => (isPlainObject(value) ? undefined : "unreadable") });

/**
 * Makes a tool of an MCP server that runs once for each key.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { idempotentTool } from "nevertwice/events/mcp";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * const tool = idempotentTool(guard, {
 *   operation: "charge",
 *   scope: (context) => context.http?.authInfo?.clientId ?? "local",
 *   key: { argument: "idempotency_key" },
 * });
 * // For server.registerTool("charge", { inputSchema, annotations: tool.annotations() }, handler).
 * export const handler = tool.handler(async (args: { amount: number; idempotency_key: string }) => ({
 *   content: [{ type: "text" as const, text: `charged ${args.amount}` }],
 * }));
 * ```
 */
export function idempotentTool<Context extends ToolContext = ToolContext, Required extends boolean = true>(
  guard: ToolGuard,
  options: ToolOptions<Context, Required>,
): IdempotentTool<Context, Required> {
  const settings = toolSettings(guard, options);
  return {
    annotations: (given) => ({
      idempotentHint: settings.isIdempotent,
      ...(given as NonNullable<typeof given>),
    }),
    handler<Args, Own extends Context, Result extends object>(
      work: (args: Args, context: Own, attempt: AttemptOf<Required>) => Result | PromiseLike<Result>,
    ) {
      return (args: Args, context: Own) =>
        answerCall<Context, Result>(guard, settings, (args ?? {}) as ToolArguments, context, (attempt) =>
          work(args, context, attempt as AttemptOf<Required>),
        );
    },
    handlerWithoutArguments<Own extends Context, Result extends object>(
      work: (context: Own, attempt: AttemptOf<Required>) => Result | PromiseLike<Result>,
    ) {
      return (context: Own) =>
        answerCall<Context, Result>(guard, settings, {}, context, (attempt) =>
          work(context, attempt as AttemptOf<Required>),
        );
    },
  };
}

/** An answer that is returned but not stored: an error of the tool, or a question to the user. */
class NotKept extends Error {
  readonly result: object;

  constructor(result: object) {
    super("the tool's answer is not stored");
    this.result = result;
  }
}

async function answerCall<Context extends ToolContext, Result extends object>(
  guard: ToolGuard,
  settings: ToolSettings<Context>,
  args: ToolArguments,
  context: Context,
  run: (attempt: Attempt | undefined) => Result | PromiseLike<Result>,
): Promise<Result | ToolRefusal> {
  let hasRun = false;
  try {
    const request = await toRequest(guard, settings, args, context);
    if (request === undefined) {
      hasRun = true;
      return await run(undefined);
    }
    const result = await guard.tryRun(request, async (attempt) => {
      hasRun = true;
      return keepableResult(settings, await run(attempt));
    });
    return toAnswer(settings, result);
  } catch (error) {
    if (error instanceof NotKept) return error.result as Result;
    // An error of the tool itself is passed on, even if it is a NevertwiceError.
    if (hasRun || !isNevertwiceError(error)) throw error;
    return refuse(settings.refusal, error);
  }
}

/** Undefined for a call without a key, if the tool does not require one. */
async function toRequest<Context extends ToolContext>(
  guard: ToolGuard,
  settings: ToolSettings<Context>,
  args: ToolArguments,
  context: Context,
): Promise<RunRequest | undefined> {
  const meta = (context.mcpReq?._meta ?? context._meta ?? {}) as ToolArguments;
  const key = checkKey(settings, readKey(settings.key, args, meta, context));
  if (key === undefined) return undefined;
  const { operation, policies, fingerprint } = settings;
  const judge = policies.onFailure ?? guard.policy.onFailure;
  return {
    ...policies,
    ...RULES,
    operation,
    key,
    scope: await readScope(settings.scope, context, args),
    fingerprint:
      fingerprint === "none"
        ? undefined
        : fingerprint === "arguments"
          ? parsedJson(withoutKey(settings.key, args))
          : fingerprint(args, context),
    onFailure: (error: unknown): FailureDisposition =>
      error instanceof NotKept ? "release" : typeof judge === "function" ? judge(error) : judge,
    // A caller that disconnects ends its wait, never the tool: the tool continues and its answer is stored.
    signal: context.mcpReq?.signal ?? context.signal,
  };
}

function checkKey<Context>(
  { required, maxKeyLength, keyPattern }: ToolSettings<Context>,
  key: string | undefined,
): string | undefined {
  if (key === undefined) {
    if (!required) return undefined;
    throw new NevertwiceError(
      "key-missing",
      "this tool needs an idempotency key: send a unique value for every new call, and the same value on every retry of it.",
    );
  }
  if (key.length > maxKeyLength)
    throw new NevertwiceError(
      "key-invalid",
      `the key has ${key.length} characters; ${maxKeyLength} is the limit.`,
    );
  if (keyPattern !== undefined && !keyPattern.test(key))
    throw new NevertwiceError("key-invalid", `the key must have the form ${keyPattern.source}.`);
  return key;
}

/** Returns the result if it may be stored. Otherwise throws `NotKept`. */
function keepableResult<Context, Result extends object>(
  { keepErrors }: ToolSettings<Context>,
  result: Result,
): Result {
  const { isError, resultType } = (result ?? {}) as ToolArguments;
  // The tool asks the user a question first. The same call comes again with the answer.
  if (resultType === "input_required") throw new NotKept(result);
  if (isError !== true) return result;
  const isKept = typeof keepErrors === "function" ? keepErrors(result as ToolArguments) : keepErrors;
  // Only `true` stores an error: a promise, for example, does not.
  if (isKept === true) return result;
  throw new NotKept(result);
}

function toAnswer<Context, Result extends object>(
  settings: ToolSettings<Context>,
  result: RunResult<Result>,
): Result | ToolRefusal {
  if (result.status === "ran") return result.value;
  if (result.status !== "replayed") return refuse(settings.refusal, toError(result));
  // The call is done, but the value is not a tool's answer.
  if (!isPlainObject(result.value))
    return refuse(settings.refusal, toError({ status: "not-kept", reason: "unreadable" }));
  const { _meta } = result.value as { readonly _meta?: object };
  return { ...result.value, _meta: { ..._meta, replayed: true } };
}
