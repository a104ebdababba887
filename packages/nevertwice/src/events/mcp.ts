/**
 * A tool of an MCP server that is called once for each key: the call that comes again, after a lost answer or from an
 * agent that starts over, gets the answer that the first one got.
 */
import type { Attempt } from "../core/attempt.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { parsedJson } from "../core/fingerprint.ts";
import type { FailureDisposition } from "../core/policy.ts";
import type { RunRequest } from "../core/request.ts";
import { type RunResult, toError } from "../core/result.ts";
import { scopeOf } from "./agent-scope.ts";
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

/** Undefined only in a call without a key, which only a tool with `required: false` runs. */
export type AttemptOf<Required extends boolean> = Required extends true ? Attempt : Attempt | undefined;

/** What `registerTool` takes. */
export type ToolHandler<Call extends readonly unknown[], Result> = (
  ...call: Call
) => Promise<Result | ToolRefusal>;

export interface IdempotentTool<Context, Required extends boolean> {
  /**
   * The annotations with an `idempotentHint` that is true: only if every call has its key among its arguments. One that
   * is given stands, as all others do.
   */
  annotations<Given extends object>(given?: Given): Given & { idempotentHint: boolean };
  /** The handler that runs `work` once for each key. */
  handler<Args, Own extends Context, Result extends object>(
    work: (args: Args, context: Own, attempt: AttemptOf<Required>) => Result | PromiseLike<Result>,
  ): ToolHandler<[args: Args, context: Own], Result>;
  /** The same for a tool without an input schema, which is handed its context alone. */
  handlerWithoutArguments<Own extends Context, Result extends object>(
    work: (context: Own, attempt: AttemptOf<Required>) => Result | PromiseLike<Result>,
  ): ToolHandler<[context: Own], Result>;
}

/** Fails with `options-invalid` at once on bad options, and if nobody said whose keys they are. */
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
        answer<Context, Result>(guard, settings, (args ?? {}) as ToolArguments, context, (attempt) =>
          work(args, context, attempt as AttemptOf<Required>),
        );
    },
    handlerWithoutArguments<Own extends Context, Result extends object>(
      work: (context: Own, attempt: AttemptOf<Required>) => Result | PromiseLike<Result>,
    ) {
      return (context: Own) =>
        answer<Context, Result>(guard, settings, {}, context, (attempt) =>
          work(context, attempt as AttemptOf<Required>),
        );
    },
  };
}

/** An answer that is given and not kept: an error of the tool, or a question to the user. */
class NotKept extends Error {
  readonly result: object;

  constructor(result: object) {
    super("the tool's answer is not kept");
    this.result = result;
  }
}

async function answer<Context extends ToolContext, Result extends object>(
  guard: ToolGuard,
  settings: ToolSettings<Context>,
  args: ToolArguments,
  context: Context,
  run: (attempt: Attempt | undefined) => Result | PromiseLike<Result>,
): Promise<Result | ToolRefusal> {
  let hasRun = false;
  try {
    const request = await requestOf(guard, settings, args, context);
    if (request === undefined) {
      hasRun = true;
      return await run(undefined);
    }
    const result = await guard.tryRun(request, async (attempt) => {
      hasRun = true;
      return kept(settings, await run(attempt));
    });
    return answerOf(settings, result);
  } catch (error) {
    if (error instanceof NotKept) return error.result as Result;
    // What the tool itself throws is its own, also if it is one of ours.
    if (hasRun || !isNevertwiceError(error)) throw error;
    return refuse(settings.refusal, error);
  }
}

/** Undefined for a call that has no key and needs none. */
async function requestOf<Context extends ToolContext>(
  guard: ToolGuard,
  settings: ToolSettings<Context>,
  args: ToolArguments,
  context: Context,
): Promise<RunRequest | undefined> {
  const meta = (context.mcpReq?._meta ?? context._meta ?? {}) as ToolArguments;
  const key = checkedLength(settings, readKey(settings.key, args, meta, context));
  if (key === undefined) return undefined;
  const { operation, policies, fingerprint } = settings;
  const judge = policies.onFailure ?? guard.policy.onFailure;
  return {
    ...policies,
    operation,
    key,
    scope: await scopeOf(settings.scope, context, args),
    fingerprint:
      fingerprint === "none"
        ? undefined
        : fingerprint === "arguments"
          ? parsedJson(withoutKey(settings.key, args))
          : fingerprint(args, context),
    onFailure: (error: unknown): FailureDisposition =>
      error instanceof NotKept ? "release" : typeof judge === "function" ? judge(error) : judge,
    // A caller that is gone ends its wait, never the tool: what it does goes on and is kept.
    signal: context.mcpReq?.signal ?? context.signal,
  };
}

function checkedLength<Context>(
  { required, maxKeyLength, keyPattern }: ToolSettings<Context>,
  key: string | undefined,
): string | undefined {
  if (key === undefined) {
    if (!required) return undefined;
    throw new NevertwiceError(
      "key-missing",
      "this tool needs an idempotency key: a value of your own, new for every new call and the same on every retry of it.",
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

/** Throws what is to be given and not kept. */
function kept<Context, Result extends object>({ keepErrors }: ToolSettings<Context>, result: Result): Result {
  const { isError, resultType } = (result ?? {}) as ToolArguments;
  // The tool asks before it goes on: the same call comes back with what it asked for.
  if (resultType === "input_required") throw new NotKept(result);
  if (isError !== true) return result;
  const isKept = typeof keepErrors === "function" ? keepErrors(result as ToolArguments) : keepErrors;
  if (isKept) return result;
  throw new NotKept(result);
}

function answerOf<Context, Result extends object>(
  settings: ToolSettings<Context>,
  result: RunResult<Result>,
): Result | ToolRefusal {
  if (result.status === "ran") return result.value;
  if (result.status !== "replayed") return refuse(settings.refusal, toError(result));
  const { _meta } = result.value as { readonly _meta?: object };
  return { ...result.value, _meta: { ..._meta, replayed: true } };
}
