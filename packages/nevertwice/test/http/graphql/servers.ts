/** GraphQL Yoga and Apollo Server with one schema, whose resolvers count their effects and fail where a test says so. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { type GraphQLError, GraphQLScalarType } from "graphql";
import { createGuard } from "../../../src/functions/guard.ts";
import {
  apolloIdempotency,
  attemptOf,
  type GraphqlOptions,
  yogaIdempotency,
} from "../../../src/http/graphql.ts";
import { memoryStore } from "../../../src/stores/memory.ts";

/** The members of GraphQL Yoga that are used here. Its own types would add those of browsers to the whole program. */
interface YogaModule {
  createGraphQLError(message: string): Error;
  createSchema(options: { typeDefs: string; resolvers: object }): object;
  createYoga(options: object): RequestListener;
}

const { createGraphQLError, createSchema, createYoga } = (await import(
  "graphql-yoga" as string
)) as YogaModule;

/** What the resolvers do. Each may throw. */
export interface Script {
  /** Before the effect of `pay`. */
  before: () => void | Promise<void>;
  /** The field `receipt` of a payment, which must not be null. */
  receipt: () => string | null;
  /** The field `note` of a payment, which may be null. */
  note: () => string | null;
}

export interface Service {
  readonly url: string;
  /** The effects, in their order. */
  readonly effects: readonly string[];
  readonly script: Script;
  close(): Promise<void>;
}

const TYPE_DEFS = `
  scalar Receipt
  type Query { runs: Int! }
  type Payment { id: ID! receipt: String! note: String }
  type Subscription { ticks: Int! }
  type Mutation {
    pay(amount: Int!): Payment!
    ship(id: ID!): Boolean!
    confirm: Receipt!
    missing: Payment!
    attempt: String
  }
`;

function resolvers(effects: string[], script: Script) {
  return {
    // Serializing comes after the effect, and may fail.
    Receipt: new GraphQLScalarType({
      name: "Receipt",
      serialize() {
        throw new Error("not serializable");
      },
    }),
    Query: { runs: () => effects.length },
    Subscription: {
      ticks: {
        async *subscribe() {
          effects.push("subscribe");
          yield { ticks: 1 };
        },
      },
    },
    Mutation: {
      async pay(_root: unknown, { amount }: { amount: number }) {
        await script.before();
        effects.push(`pay ${amount}`);
        return { id: `payment ${effects.length}` };
      },
      ship(_root: unknown, { id }: { id: string }) {
        effects.push(`ship ${id}`);
        if (id === "none") throw createGraphQLError("no such order");
        return true;
      },
      confirm() {
        effects.push("confirm");
        return {};
      },
      missing() {
        effects.push("missing");
        return null;
      },
      attempt: (_root: unknown, _args: unknown, context: object) => {
        effects.push("attempt");
        return attemptOf(context)?.deriveKey("psp") ?? null;
      },
    },
    Payment: { receipt: () => script.receipt(), note: () => script.note() },
  };
}

type Start = (options: Partial<GraphqlOptions<object>>) => Promise<Service>;

interface YogaExecution {
  readonly args: { readonly contextValue: { readonly request: Request } };
  executeFn(args: object): unknown;
  setExecuteFn(execute: (args: object) => unknown): void;
}

/** A plugin that delivers results in parts, as those for `@defer` and `@stream` do. */
function deliverInParts({ args, executeFn, setExecuteFn }: YogaExecution): void {
  if (args.contextValue.request.headers.get("x-stream") === null) return;
  setExecuteFn(async function* (given) {
    yield await executeFn(given);
  });
}

/** A plugin that fails between the claim and the resolvers. */
function crash(headers: { get(name: string): string | null | undefined } | undefined): undefined {
  if (headers?.get("x-crash")) throw new Error("a plugin failed");
}

function begin() {
  const script: Script = { before: () => {}, receipt: () => "paid", note: () => "thanks" };
  const effects: string[] = [];
  return { script, effects, guard: createGuard({ store: memoryStore(), purgeEveryMs: 0 }) };
}

export const startYoga: Start = async (options) => {
  const { script, effects, guard } = begin();
  const yoga = createYoga({
    schema: createSchema({ typeDefs: TYPE_DEFS, resolvers: resolvers(effects, script) }),
    plugins: [
      yogaIdempotency(guard, { scope: "anyone", ...options }),
      { onExecute: deliverInParts },
      {
        onExecute: ({ args }: { args: { contextValue: { request: Request } } }) =>
          crash(args.contextValue.request.headers),
      },
    ],
    batching: true,
    logging: false,
  });
  const server = createServer(yoga);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`,
    effects,
    script,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await guard.close();
    },
  };
};

export const startApollo: Start = async (options) => {
  const { script, effects, guard } = begin();
  const { Subscription: _, ...served } = resolvers(effects, script);
  const server = new ApolloServer({
    typeDefs: TYPE_DEFS.replace(/ {2}type Subscription.*\n/, ""),
    resolvers: served,
    plugins: [
      apolloIdempotency(guard, { scope: "anyone", ...options }),
      {
        requestDidStart: async () => ({
          executionDidStart: async ({ request }) => crash(request.http?.headers),
        }),
      },
    ],
    allowBatchedHttpRequests: true,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    // As a service in production does, and as Yoga does by default.
    formatError(formatted, error) {
      const { originalError } = error as GraphQLError;
      return originalError === undefined || originalError.name === "GraphQLError"
        ? formatted
        : { ...formatted, message: "Unexpected error.", extensions: { code: "INTERNAL_SERVER_ERROR" } };
    },
  });
  const { url } = await startStandaloneServer(server, { listen: { port: 0, host: "127.0.0.1" } });
  return {
    url,
    effects,
    script,
    async close() {
      await server.stop();
      await guard.close();
    },
  };
};
