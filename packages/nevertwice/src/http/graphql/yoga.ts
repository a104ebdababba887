/** GraphQL Yoga: a plugin that guards mutations. The types contain only the members that are used here. */
import type { Engine } from "../../core/engine.ts";
import { NevertwiceError } from "../../core/errors.ts";
import type { HeaderLine } from "../http-message.ts";
import { webRequest } from "../web-request.ts";
import { createGraphqlExchange, type GraphqlOptions, type RunningMutation } from "./exchange.ts";
import type { DocumentNode } from "./operation.ts";
import type { GraphqlAnswer, GraphqlResult } from "./result.ts";
import { type SchemaLike, watchRootResolvers } from "./root-resolvers.ts";

interface HttpExtension {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

interface YogaExecution {
  readonly args: {
    readonly document: unknown;
    readonly operationName?: string | null | undefined;
    readonly variableValues?: unknown;
    readonly contextValue?: unknown;
  };
  setResultAndStopExecution(result: object): void;
}

interface YogaParams {
  readonly paramsHandler: (payload: never) => unknown;
  setParamsHandler(handler: (payload: { readonly context: object }) => Promise<never>): void;
}

/** The parts of a plugin of GraphQL Yoga that are used here. */
export interface YogaPlugin {
  onSchemaChange(event: { readonly schema: unknown }): void;
  onParams(event: YogaParams): void;
  onExecute(event: YogaExecution): Promise<undefined>;
}

/** The member of results by which Yoga's status and headers are set. Yoga removes it before it sends. */
const HTTP = "http";

/**
 * A plugin for GraphQL Yoga: each mutation with a key runs once. Put it behind the plugins that read persisted operations, and in front of those that change results.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { yogaIdempotency } from "nevertwice/http/graphql";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * export const plugins = [yogaIdempotency(guard, { scope: "anyone" })]; // createYoga({ schema, plugins })
 * ```
 */
export function yogaIdempotency<Context = unknown>(
  guard: Engine,
  options: GraphqlOptions<Context>,
): YogaPlugin {
  const open = createGraphqlExchange(guard, options);
  /** The requests that Yoga is handling, by context, with their mutation once it runs. */
  const calls = new WeakMap<object, { running?: RunningMutation }>();

  return {
    onSchemaChange({ schema }) {
      watchRootResolvers(schema as SchemaLike);
    },

    // The whole request: its result is final after all plugins, which may mask errors.
    onParams({ paramsHandler, setParamsHandler }) {
      setParamsHandler(async (payload) => {
        const call: { running?: RunningMutation } = {};
        calls.set(payload.context, call);
        let result: unknown;
        try {
          result = await paramsHandler(payload as never);
        } catch (error) {
          call.running?.fail(error);
          throw error;
        }
        return (
          call.running === undefined ? result : await finish(call.running, result as GraphqlResult)
        ) as never;
      });
    },

    async onExecute({ args, setResultAndStopExecution }) {
      const context = args.contextValue as { readonly request: Request };
      const call = calls.get(context);
      if (call === undefined) return refuseOtherTransports(options.required);
      const opening = await open({
        document: args.document as DocumentNode,
        operationName: args.operationName,
        variables: args.variableValues as Readonly<Record<string, unknown>> | undefined,
        context,
        carrier: webRequest(context.request, [context]),
      });
      if (opening === undefined) return undefined;
      if ("run" in opening) call.running = opening.run;
      else setResultAndStopExecution(toYogaResult(opening.answer));
      return undefined;
    },
  };
}

/** A WebSocket, for example, has no headers that could carry a key. */
function refuseOtherTransports(isRequired: boolean | undefined): undefined {
  if (isRequired !== true) return undefined;
  throw new NevertwiceError(
    "not-supported",
    "keys are required, and only requests over HTTP can carry them.",
  );
}

async function finish(running: RunningMutation, result: GraphqlResult): Promise<object> {
  const answer = readYogaResult(result);
  const instead = await running.end(answer);
  if (instead !== undefined) return toYogaResult(instead);
  // A stream has no such member, and goes out as it is.
  return answer.result === undefined || running.added.length === 0
    ? result
    : withHttp(result, { headers: toRecord(running.added) });
}

function readYogaResult(result: GraphqlResult): GraphqlAnswer {
  if (Symbol.asyncIterator in result) return { status: 200, headers: [], result: undefined };
  const { data, errors, extensions } = result;
  const [rest, ...heads] = [extensions, ...(errors ?? []).map((error) => error.extensions)].map(takeHttp);
  const https = [rest, ...heads].map((taken) => taken?.http ?? {});
  const formatted = errors?.map((error, i) => {
    const { message, path, ...more } = JSON.parse(JSON.stringify(error));
    const left = heads[i]?.left;
    const { extensions: _, ...others } = more;
    return { message, path, ...others, ...(left === undefined ? {} : { extensions: left }) };
  });
  return {
    status: Math.max(200, ...https.map(({ status = 0 }) => status)),
    headers: https.flatMap(({ headers = {} }) => Object.entries(headers)),
    result: {
      ...(data === undefined ? {} : { data }),
      ...(formatted === undefined ? {} : { errors: formatted }),
      ...(rest?.left === undefined ? {} : { extensions: rest.left }),
    },
  };
}

/** The members that Yoga uses itself and does not send, and those that are left. */
function takeHttp(extensions: Readonly<Record<string, unknown>> | undefined): {
  readonly http: HttpExtension;
  readonly left: Readonly<Record<string, unknown>> | undefined;
} {
  const { [HTTP]: http = {}, unexpected: _, ...left } = extensions ?? {};
  return { http: http as HttpExtension, left: Object.keys(left).length === 0 ? undefined : left };
}

function toYogaResult({ status, headers, result = {} }: GraphqlAnswer): object {
  return withHttp(result, { status, headers: toRecord(headers) });
}

function withHttp(result: GraphqlResult, { status, headers }: HttpExtension): object {
  const own = result.extensions?.[HTTP] as HttpExtension | undefined;
  const http = {
    ...own,
    ...(status === undefined ? {} : { status }),
    headers: { ...own?.headers, ...headers },
  };
  return { ...result, extensions: { ...result.extensions, [HTTP]: http } };
}

function toRecord(lines: readonly HeaderLine[]): Record<string, string> {
  return Object.fromEntries(lines);
}
