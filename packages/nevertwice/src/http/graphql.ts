/** Guards the mutations of a GraphQL server: a plugin for GraphQL Yoga, and one for Apollo Server. */
export { type ApolloPlugin, apolloIdempotency } from "./graphql/apollo.ts";
export type { GraphqlCall, GraphqlOptions } from "./graphql/exchange.ts";
export { type YogaPlugin, yogaIdempotency } from "./graphql/yoga.ts";
/** `attemptOf(context)`: the attempt of the resolver that received this context; undefined if the request has no key. */
export { attemptFor as attemptOf, type HttpAttempt } from "./http-attempt.ts";
