/**
 * An A2A agent that processes each message once. The same `messageId` again, for example after a lost response or through
 * another server, gets the same task or message, and a stream gets the same events.
 */

import { requireGuard } from "../core/argument-checks.ts";
import { doorRules } from "../core/door-rules.ts";
import type { Engine } from "../core/engine.ts";
import { isNevertwiceError, type NevertwiceError } from "../core/errors.ts";
import { parsedJson } from "../core/fingerprint.ts";
import { type Check, checkOptions, isFunction, oneOf } from "../core/option-checks.ts";
import { parseJson } from "../core/parse-json.ts";
import { isPlainObject } from "../core/plain-object.ts";
import {
  type FailureDisposition,
  mergePolicy,
  POLICY_CHECKS,
  type PolicyOptions,
  pickPolicies,
} from "../core/policy.ts";
import type { JudgeReplay } from "../core/replay-fault.ts";
import type { RunRequest } from "../core/request.ts";
import { isOperation } from "../core/reserved.ts";
import { type RunResult, toError } from "../core/result.ts";
import { createChannel } from "./a2a/channel.ts";
import { type AgentScope, isAgentScope, readScope, requireScope } from "./agent-scope.ts";

/** The part of the official server's request handler that is used here. */
export interface MessageHandler {
  sendMessage(params: never, context: never): Promise<object>;
  sendMessageStream(params: never, context: never): AsyncGenerator<object, void, undefined>;
  getTask(params: never, context: never): Promise<object>;
}

type SendParams<Handler extends MessageHandler> = Parameters<Handler["sendMessage"]>[0];
type SendContext<Handler extends MessageHandler> = Parameters<Handler["sendMessage"]>[1];

/** Options of `idempotentMessages`. Every policy option of the guard is allowed too. */
export interface MessageOptions<Params, Context> extends PolicyOptions {
  /** The owner of a message, from the authenticated context. `anyone`: only the sender knows the id. */
  readonly scope: AgentScope<Context, Params>;
  /** What the `messageId` is for. Give each agent its own operation if several share a store. */
  readonly operation?: string | undefined;
  /** The content that must not change: the same id with other content is a `conflict`. Default: the whole message. */
  readonly fingerprint?: "message" | "none" | ((params: Params) => unknown) | undefined;
  /** Converts our error into one that the server has a code for. */
  readonly refusal?: ((error: NevertwiceError) => unknown) | undefined;
}

/** The defaults of the options of a message handler. */
export const MESSAGE_DEFAULTS = { operation: "a2a.message", fingerprint: "message" } as const;

const MESSAGE_CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  scope: isAgentScope,
  operation: isOperation,
  fingerprint: (name, value) => typeof value === "function" || oneOf("message", "none")(name, value),
  refusal: isFunction,
};

/** The part of a request that is used here. */
interface SendRequest {
  readonly tenant?: string;
  readonly message?: { readonly messageId?: string };
  readonly configuration?: { readonly historyLength?: number };
}

interface NativeHandler {
  sendMessage(params: SendRequest, context: unknown): Promise<object>;
  sendMessageStream(params: SendRequest, context: unknown): AsyncGenerator<AgentEvent, void, undefined>;
  getTask(params: object, context: unknown): Promise<object>;
}

interface AgentEvent {
  readonly payload?: {
    readonly $case: string;
    readonly value: { readonly id?: string; readonly taskId?: string };
  };
}

/** What is stored for a message: its answer, and its events if it was streamed. */
interface StoredAnswer {
  readonly answer: object | undefined;
  readonly events?: readonly AgentEvent[];
}

/**
 * Wraps the request handler of an A2A server: a message that is sent again gets the first answer, and starts no second task.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { idempotentMessages, type MessageHandler } from "nevertwice/events/a2a";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * // The handler of the official SDK: new DefaultRequestHandler(card, tasks, executor).
 * export const guarded = (handler: MessageHandler) => idempotentMessages(guard, { scope: "anyone" }, handler);
 * ```
 */
export function idempotentMessages<Handler extends MessageHandler>(
  guard: Pick<Engine, "tryRun" | "policy">,
  options: MessageOptions<SendParams<Handler>, SendContext<Handler>>,
  handler: Handler,
): Handler {
  requireGuard(guard, "idempotentMessages(guard, { scope }, handler)");
  checkOptions(options, MESSAGE_CHECKS);
  requireScope(options);
  mergePolicy(guard.policy, pickPolicies(options));
  const native = handler as unknown as NativeHandler;
  const settings = options as unknown as MessageOptions<SendRequest, unknown>;

  async function sendMessage(params: SendRequest, context: unknown): Promise<object> {
    const { value } = await runOnce(settings, async () =>
      guard.tryRun<StoredAnswer>(
        {
          ...(await toRequest(settings, params, context)),
          ...doorRules({ judgeReplay: faultIn(findAnswer) }),
        },
        async () => ({ answer: await native.sendMessage(params, context) }),
      ),
    );
    return findAnswer(value) ?? unreadable(settings);
  }

  async function* sendMessageStream(params: SendRequest, context: unknown) {
    const live = createChannel<AgentEvent>();
    const events: AgentEvent[] = [];
    // The agent has sent events, so it was at work. If its stream breaks, its outcome is unknown.
    const onFailure = (error: unknown): FailureDisposition => {
      const judge = options.onFailure ?? guard.policy.onFailure;
      if (events.length > 0) return "unknown";
      return typeof judge === "function" ? judge(error) : judge;
    };
    // A caller that disconnects ends its own stream, never the agent: all events are still stored.
    const ended = runOnce(settings, async () =>
      guard.tryRun<StoredAnswer>(
        {
          ...(await toRequest(settings, params, context)),
          ...doorRules({ judgeReplay: faultIn(findEvents) }),
          onFailure,
        },
        async () => {
          for await (const event of native.sendMessageStream(params, context)) {
            // Copied, because the objects it refers to may change while the task continues.
            events.push(structuredClone(event));
            live.push(event);
          }
          return { answer: await plainAnswer(native, events, params, context), events };
        },
      ),
    );
    ended.then(live.end, live.end);
    yield* live.events();
    const { status, value } = await ended;
    if (status === "replayed") yield* findEvents(value) ?? unreadable(settings);
  }

  const own: Readonly<Record<PropertyKey, unknown>> = { sendMessage, sendMessageStream };
  return new Proxy(handler, {
    get(target, name) {
      if (Object.hasOwn(own, name)) return own[name];
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

async function toRequest(
  options: MessageOptions<SendRequest, unknown>,
  params: SendRequest,
  context: unknown,
): Promise<RunRequest> {
  const {
    scope,
    operation = MESSAGE_DEFAULTS.operation,
    fingerprint = MESSAGE_DEFAULTS.fingerprint,
  } = options;
  return {
    ...pickPolicies(options),
    operation,
    scope: await readScope(scope, context, params),
    key: params.message?.messageId as string,
    fingerprint:
      fingerprint === "none"
        ? undefined
        : fingerprint === "message"
          ? parsedJson(parseJson(JSON.stringify(params.message ?? null)))
          : fingerprint(params),
  };
}

/** Returns the new or the replayed value. Throws for every other result, converted by `refusal`. */
async function runOnce(
  options: MessageOptions<SendRequest, unknown>,
  run: () => Promise<RunResult<StoredAnswer>>,
): Promise<{ readonly status: "ran" | "replayed"; readonly value: StoredAnswer }> {
  try {
    const result = await run();
    if (result.status === "ran") return result;
    if (result.status !== "replayed") throw toError(result);
    return { status: "replayed", value: readStoredAnswer(result.value) };
  } catch (error) {
    throw toThrown(options, error);
  }
}

/** An operator or another program may have written the record. Members that the agent did not write are ignored. */
function readStoredAnswer(value: unknown): StoredAnswer {
  if (!isPlainObject(value)) return { answer: undefined };
  const { answer, events } = value;
  return {
    answer: isPlainObject(answer) ? answer : undefined,
    ...(Array.isArray(events) && events.every(isPlainObject) ? { events } : {}),
  };
}

/** What a call without a stream gets; undefined if nothing is stored that it could get. */
function findAnswer({ answer, events = [] }: StoredAnswer): object | undefined {
  return answer ?? lastTask(events);
}

/** What a stream gets; undefined if nothing is stored that it could get. */
function findEvents({ answer, events }: StoredAnswer): readonly AgentEvent[] | undefined {
  return events ?? (answer && [asEvent(answer)]);
}

function faultIn(find: (stored: StoredAnswer) => unknown): JudgeReplay {
  return (value) => (find(readStoredAnswer(value)) === undefined ? "unreadable" : undefined);
}

/** The message is done, but no answer is stored that could be replayed. */
function unreadable(options: MessageOptions<SendRequest, unknown>): never {
  throw toThrown(options, toError({ status: "not-kept", reason: "unreadable" }));
}

function toThrown({ refusal }: MessageOptions<SendRequest, unknown>, error: unknown): unknown {
  return refusal !== undefined && isNevertwiceError(error) ? refusal(error) : error;
}

/** The answer that a call without a stream would have got. */
async function plainAnswer(
  native: NativeHandler,
  events: readonly AgentEvent[],
  { tenant, configuration }: SendRequest,
  context: unknown,
): Promise<object | undefined> {
  const last = events.at(-1)?.payload;
  if (last === undefined || last.$case === "message") return last?.value;
  const id = last.value.taskId ?? last.value.id;
  try {
    return await native.getTask({ tenant, id, historyLength: configuration?.historyLength }, context);
  } catch {
    // The message is processed even if its task cannot be read. The events are stored without it.
    return undefined;
  }
}

/** The task as the last event shows it. The caller can ask for its current state. */
function lastTask(events: readonly AgentEvent[]): object | undefined {
  return events.findLast(({ payload }) => payload?.$case === "task")?.payload?.value;
}

function asEvent(answer: object): AgentEvent {
  return { payload: { $case: "messageId" in answer ? "message" : "task", value: answer } };
}
