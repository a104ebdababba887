/** Apollo Server: a plugin that guards mutations. The types contain only the members that are used here. */
import type { Engine } from "../../core/engine.ts";
import { createGraphqlExchange, type GraphqlOptions, type RunningMutation } from "./exchange.ts";
import type { DocumentNode } from "./operation.ts";
import type { GraphqlAnswer, GraphqlResult } from "./result.ts";
import { type SchemaLike, watchRootResolvers } from "./root-resolvers.ts";

interface ApolloHead {
  status?: number;
  readonly headers: Iterable<[string, string]> & {
    get(name: string): string | undefined;
    set(name: string, value: string): unknown;
  };
}

interface ApolloRequest {
  readonly request: {
    readonly variables?: Readonly<Record<string, unknown>>;
    readonly operationName?: string;
    readonly http?: { readonly headers: { get(name: string): string | undefined } };
  };
  readonly document?: unknown;
  readonly contextValue: object;
  readonly response: { readonly http: ApolloHead; body?: unknown };
}

interface SingleBody {
  readonly kind: "single";
  readonly singleResult: Record<string, unknown>;
}

/** Apollo's response head is a class of its own, so the one that it handed in is handed back. */
interface ApolloAnswer<Head> {
  readonly http: Head;
  readonly body: { kind: "single"; singleResult: Record<string, never> };
}

export interface ApolloListener {
  responseForOperation<Request extends ApolloRequest>(
    request: Request,
  ): Promise<ApolloAnswer<Request["response"]["http"]> | null>;
  willSendResponse(request: ApolloRequest): Promise<void>;
}

/** The parts of a plugin of Apollo Server 4 and 5 that are used here. */
export interface ApolloPlugin {
  serverWillStart(service: { readonly schema: unknown }): Promise<{
    schemaDidLoadOrUpdate(schemas: { readonly apiSchema: unknown }): void;
  }>;
  requestDidStart(): Promise<ApolloListener>;
  unexpectedErrorProcessingRequest(failed: {
    readonly requestContext: { readonly contextValue: object };
    readonly error: Error;
  }): Promise<void>;
}

/**
 * A plugin for Apollo Server: each mutation with a key runs once, and a duplicate gets the stored result.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { ApolloServer } from "@apollo/server";
 * import { createGuard } from "nevertwice";
 * import { apolloIdempotency } from "nevertwice/http/graphql";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * export const server = new ApolloServer({
 *   typeDefs: "type Query { ok: Boolean } type Mutation { pay(amount: Int!): ID! }",
 *   plugins: [apolloIdempotency(guard, { scope: "anyone" })],
 * });
 * ```
 */
export function apolloIdempotency<Context = unknown>(
  guard: Engine,
  options: GraphqlOptions<Context>,
): ApolloPlugin {
  const open = createGraphqlExchange(guard, options);
  const running = new WeakMap<object, RunningMutation>();

  async function responseForOperation<Request extends ApolloRequest>(
    request: Request,
  ): Promise<ApolloAnswer<Request["response"]["http"]> | null> {
    const { contextValue, document, request: sent, response } = request;
    const opening = await open({
      document: document as DocumentNode,
      operationName: sent.operationName,
      variables: sent.variables,
      context: contextValue,
      carrier: { target: "/graphql", header: (name) => sent.http?.headers.get(name) },
    });
    if (opening === undefined) return null;
    if ("run" in opening) {
      running.set(contextValue, opening.run);
      return null;
    }
    return { http: response.http, body: sendInstead(response.http, opening.answer) };
  }

  return {
    async serverWillStart({ schema }) {
      watchRootResolvers(schema as SchemaLike);
      return {
        schemaDidLoadOrUpdate: ({ apiSchema }) => watchRootResolvers(apiSchema as SchemaLike),
      };
    },

    async requestDidStart() {
      return {
        responseForOperation,
        async willSendResponse({ contextValue, response }) {
          const mutation = running.get(contextValue);
          if (mutation === undefined) return;
          running.delete(contextValue);
          const instead = await mutation.end(readAnswer(response));
          if (instead !== undefined) response.body = sendInstead(response.http, instead);
          else for (const [name, value] of mutation.added) response.http.headers.set(name, value);
        },
      };
    },

    async unexpectedErrorProcessingRequest({ requestContext, error }) {
      running.get(requestContext.contextValue)?.fail(error);
    },
  };
}

/** Apollo has formatted the errors by now. */
function readAnswer({ http, body }: ApolloRequest["response"]): GraphqlAnswer {
  const { kind, singleResult } = body as SingleBody;
  const result = kind === "single" ? (singleResult as unknown as GraphqlResult) : undefined;
  return { status: http.status ?? 200, headers: [...http.headers], result };
}

function sendInstead(
  http: ApolloHead,
  { status, headers, result }: GraphqlAnswer,
): ApolloAnswer<ApolloHead>["body"] {
  http.status = status;
  for (const [name, value] of headers) http.headers.set(name, value);
  return { kind: "single", singleResult: result as Record<string, never> };
}
