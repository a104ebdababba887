/**
 * An A2A agent that processes a message once: the same `messageId` again, after a lost answer or through another server,
 * gets the task or message that the first one got, and a stream the events that the first one had.
 */
import type { Engine } from "../core/engine.ts";
import { isNevertwiceError, type NevertwiceError } from "../core/errors.ts";
import { parsedJson } from "../core/fingerprint.ts";
import { checkedPart } from "../core/identity.ts";
import {
  type Check,
  checkOptions,
  type FailureDisposition,
  isFunction,
  mergePolicy,
  oneOf,
  POLICY_CHECKS,
  type PolicyOptions,
} from "../core/policy.ts";
import type { RunRequest } from "../core/request.ts";
import { type RunResult, toError } from "../core/result.ts";
import { createChannel } from "./a2a/channel.ts";
import { type AgentScope, isAgentScope, requireScope, scopeOf } from "./agent-scope.ts";

/** What we need of an agent's request handler, as the official server has it. */
export interface MessageHandler {
  sendMessage(params: never, context: never): Promise<object>;
  sendMessageStream(params: never, context: never): AsyncGenerator<object, void, undefined>;
  getTask(params: never, context: never): Promise<object>;
}

type ParamsOf<Handler extends MessageHandler> = Parameters<Handler["sendMessage"]>[0];
type ContextOf<Handler extends MessageHandler> = Parameters<Handler["sendMessage"]>[1];

/** docs/agents.md explains each; every policy of the guard may stand beside them. */
export interface MessageOptions<Params, Context> extends PolicyOptions {
  /** Whom a message belongs to, from the authenticated context; or that its id is known to its sender alone. */
  readonly scope: AgentScope<Context, Params>;
  /** What the `messageId` is for. Give each agent its own, if several share a store. */
  readonly operation?: string | undefined;
  /** What the message means: the same id with another meaning is a `conflict`. Default: all of the message. */
  readonly fingerprint?: "message" | "none" | ((params: Params) => unknown) | undefined;
  /** What to throw instead of an error of ours: one that the server has a code for. */
  readonly refusal?: ((error: NevertwiceError) => unknown) | undefined;
}

export const MESSAGE_DEFAULTS = { operation: "a2a.message", fingerprint: "message" } as const;

const MESSAGE_CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  scope: isAgentScope,
  operation: (name, value) => void checkedPart(value, name, "options-invalid"),
  fingerprint: (name, value) => typeof value === "function" || oneOf("message", "none")(name, value),
  refusal: isFunction,
};

/** What of a request concerns us. */
interface Sent {
  readonly tenant?: string;
  readonly message?: { readonly messageId?: string };
  readonly configuration?: { readonly historyLength?: number };
}

interface NativeHandler {
  sendMessage(params: Sent, context: unknown): Promise<object>;
  sendMessageStream(params: Sent, context: unknown): AsyncGenerator<StreamEvent, void, undefined>;
  getTask(params: object, context: unknown): Promise<object>;
}

interface StreamEvent {
  readonly payload?: {
    readonly $case: string;
    readonly value: { readonly id?: string; readonly taskId?: string };
  };
}

/** What is kept of a message: its answer, and the events if it was streamed. */
interface Kept {
  readonly answer: object | undefined;
  readonly events?: readonly StreamEvent[];
}

/** Fails with `options-invalid` at once on bad options, and if nobody said whose messages they are. */
export function idempotentMessages<Handler extends MessageHandler>(
  guard: Pick<Engine, "tryRun" | "policy">,
  options: MessageOptions<ParamsOf<Handler>, ContextOf<Handler>>,
  handler: Handler,
): Handler {
  checkOptions(options, MESSAGE_CHECKS);
  requireScope(options);
  mergePolicy(guard.policy, policiesIn(options));
  const native = handler as unknown as NativeHandler;
  const settings = options as unknown as MessageOptions<Sent, unknown>;

  async function sendMessage(params: Sent, context: unknown): Promise<object> {
    const { value } = await settled(settings, async () =>
      guard.tryRun<Kept>(await requestOf(settings, params, context), async () => ({
        answer: await native.sendMessage(params, context),
      })),
    );
    const answer = value.answer ?? lastTask(value.events ?? []);
    if (answer !== undefined) return answer;
    throw refused(settings, toError({ status: "not-kept", reason: "unreadable" }));
  }

  async function* sendMessageStream(params: Sent, context: unknown) {
    const live = createChannel<StreamEvent>();
    const events: StreamEvent[] = [];
    // An agent that was heard of was at work: when its stream breaks, nobody knows how far it came.
    const onFailure = (error: unknown): FailureDisposition => {
      const judge = options.onFailure ?? guard.policy.onFailure;
      if (events.length > 0) return "unknown";
      return typeof judge === "function" ? judge(error) : judge;
    };
    // A caller that is gone ends its own stream, never the agent: its events are kept to the last.
    const ended = settled(settings, async () =>
      guard.tryRun<Kept>({ ...(await requestOf(settings, params, context)), onFailure }, async () => {
        for await (const event of native.sendMessageStream(params, context)) {
          // What it refers to may change as the task goes on.
          events.push(structuredClone(event));
          live.push(event);
        }
        return { answer: await answerOf(native, events, params, context), events };
      }),
    );
    ended.then(live.end, live.end);
    yield* live.events();
    const { status, value } = await ended;
    if (status === "replayed") yield* value.events ?? [asEvent(value.answer as object)];
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

function policiesIn(options: object): PolicyOptions {
  return Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(POLICY_CHECKS, name)));
}

async function requestOf(
  options: MessageOptions<Sent, unknown>,
  params: Sent,
  context: unknown,
): Promise<RunRequest> {
  const {
    scope,
    operation = MESSAGE_DEFAULTS.operation,
    fingerprint = MESSAGE_DEFAULTS.fingerprint,
  } = options;
  return {
    ...policiesIn(options),
    operation,
    scope: await scopeOf(scope, context, params),
    key: params.message?.messageId as string,
    fingerprint:
      fingerprint === "none"
        ? undefined
        : fingerprint === "message"
          ? parsedJson(JSON.parse(JSON.stringify(params.message ?? null)))
          : fingerprint(params),
  };
}

/** The run or replayed value; throws for every other ending, in the words of whoever serves. */
async function settled(
  options: MessageOptions<Sent, unknown>,
  run: () => Promise<RunResult<Kept>>,
): Promise<{ readonly status: "ran" | "replayed"; readonly value: Kept }> {
  try {
    const result = await run();
    if (result.status === "ran" || result.status === "replayed") return result;
    throw toError(result);
  } catch (error) {
    throw refused(options, error);
  }
}

function refused({ refusal }: MessageOptions<Sent, unknown>, error: unknown): unknown {
  return refusal !== undefined && isNevertwiceError(error) ? refusal(error) : error;
}

/** What a call without a stream would have been answered. */
async function answerOf(
  native: NativeHandler,
  events: readonly StreamEvent[],
  { tenant, configuration }: Sent,
  context: unknown,
): Promise<object | undefined> {
  const last = events.at(-1)?.payload;
  if (last === undefined || last.$case === "message") return last?.value;
  const id = last.value.taskId ?? last.value.id;
  try {
    return await native.getTask({ tenant, id, historyLength: configuration?.historyLength }, context);
  } catch {
    // It is processed, whether its task can be read or not: its events have to do.
    return undefined;
  }
}

/** As it was last told of: whoever asked may ask how it stands. */
function lastTask(events: readonly StreamEvent[]): object | undefined {
  return events.findLast(({ payload }) => payload?.$case === "task")?.payload?.value;
}

function asEvent(answer: object): StreamEvent {
  return { payload: { $case: "messageId" in answer ? "message" : "task", value: answer } };
}
