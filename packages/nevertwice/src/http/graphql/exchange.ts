/**
 * One mutation through the exchange of the HTTP layer. A GraphQL server calls us before and after the execution, so the
 * response that the exchange waits for is handed in later.
 */
import type { Engine } from "../../core/engine.ts";
import { isFunction } from "../../core/option-checks.ts";
import { createExchange } from "../exchange.ts";
import { rememberAttempt } from "../http-attempt.ts";
import type { HeaderLine, HttpRequest, HttpResponse } from "../http-message.ts";
import type { HttpOptions } from "../options.ts";
import type { Problem } from "../problem.ts";
import { type DocumentNode, documentText, type Mutation, selectMutation } from "./operation.ts";
import { type GraphqlAnswer, hasRootError, type OwnError, toAnswer, toResponse } from "./result.ts";
import { hasRootFailed, hasRootStarted } from "./root-resolvers.ts";

/** A mutation, as the functions in the options receive it. */
export interface GraphqlCall<Context = unknown> {
  /** The context of the GraphQL server. */
  readonly context: Context;
  /** The names of the root fields. */
  readonly fields: readonly string[];
  /** The variables of the operation. */
  readonly variables: Readonly<Record<string, unknown>>;
  /** The name of the operation, if the document gives it one. */
  readonly operationName: string | undefined;
}

/** The options of the HTTP layer without those that have no meaning for a mutation. */
export interface GraphqlOptions<Context = unknown>
  extends Omit<HttpOptions<GraphqlCall<Context>>, "keyField" | "methods" | "onNotKept" | "refusal"> {
  /** Returns the application's own form of a refusal; undefined for the layer's. */
  readonly refusal?: ((problem: Problem, call: GraphqlCall<Context>) => OwnError | undefined) | undefined;
}

/** A request, as a GraphQL server knows it before the execution. */
export interface GraphqlRequest {
  readonly document: DocumentNode;
  readonly operationName: string | null | undefined;
  readonly variables: Readonly<Record<string, unknown>> | null | undefined;
  /** The server's own object for this one execution. */
  readonly context: object;
  /** What the transport knows: headers, and whether the client is gone. */
  readonly carrier: Pick<HttpRequest<unknown>, "header" | "isGone" | "waitUntil" | "target">;
}

export interface RunningMutation {
  /** For the headers of the first answer. */
  readonly added: readonly HeaderLine[];
  /** Keeps the answer. Resolves with what to send instead of it; undefined to send it. */
  end(answer: GraphqlAnswer): Promise<GraphqlAnswer | undefined>;
  /** The server failed before it had a result. */
  fail(error: unknown): void;
}

export type Opening = { readonly run: RunningMutation } | { readonly answer: GraphqlAnswer };

/** Resolves with undefined if the request is not guarded: it is no mutation, or has no key and needs none. */
export type OpenMutation = (request: GraphqlRequest) => Promise<Opening | undefined>;

/** Whether the only root resolver threw, or none was called. Whatever else fails comes after an effect. */
function hasFailed({ result }: GraphqlAnswer, { isSingle }: Mutation, context: object): boolean {
  if (result === undefined) return false;
  if (result.data === undefined && !hasRootStarted(context)) return true;
  return isSingle && hasRootFailed(context) && hasRootError(result);
}

export function createGraphqlExchange<Context>(
  guard: Engine,
  { refusal, ...options }: GraphqlOptions<Context>,
): OpenMutation {
  if (refusal !== undefined) isFunction("refusal", refusal);
  const exchange = createExchange<GraphqlCall<Context>>(guard, {
    operation: ({ fields }) => `mutation ${fields.join(" ")}`,
    ...options,
    // A duplicate whose result was not kept would get an empty result.
    onNotKept: "refuse",
  });

  function start(
    request: HttpRequest<GraphqlCall<Context>>,
    mutation: Mutation,
  ): Promise<Opening | undefined> {
    const context = request.native.context as object;
    const own = refusal && ((problem: Problem) => refusal(problem, request.native));
    return new Promise((resolve, reject) => {
      const handled = exchange.handle(request, (attempt, added) => {
        rememberAttempt(context, attempt);
        return new Promise<HttpResponse>((respond, fail) => {
          const end = async (answer: GraphqlAnswer) => {
            respond(toResponse(answer, hasFailed(answer, mutation, context)));
            const ending = await handled;
            return ending.kind === "reply" ? toAnswer(ending, own) : undefined;
          };
          resolve({ run: { added, end, fail } });
        });
      });
      handled.then((result) => {
        resolve(result.kind === "reply" ? { answer: toAnswer(result, own) } : undefined);
      }, reject);
    });
  }

  return async function open({ document, operationName, variables, context, carrier }) {
    const mutation = selectMutation(document, operationName);
    if (mutation === undefined) return undefined;
    const given = {
      context: context as Context,
      fields: mutation.fields,
      variables: variables ?? {},
      operationName: operationName ?? undefined,
    };
    const value = {
      query: documentText(document),
      variables: given.variables,
      operationName: operationName ?? null,
    };
    return start(
      { ...carrier, native: given, method: "POST", readBody: () => ({ kind: "parsed", value }) },
      mutation,
    );
  };
}
