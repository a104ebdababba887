/** What every adapter shares: options, profiles, replays from today's state, and the policy that a service publishes. */
export type {
  HeaderLine,
  HttpAttempt,
  HttpResponse,
  KeepDecision,
} from "./exchange.ts";
export { type ParsedKey, parseKeyHeader } from "./key-header.ts";
export {
  type JsonSchema,
  type OpenApiFragments,
  type OpenApiHeader,
  type OpenApiParameter,
  type OpenApiResponse,
  openapiFragments,
} from "./openapi.ts";
export type { FingerprintHow, HttpOptions, JudgedResponse, Keep, QuotaLimits } from "./options.ts";
export { type IdempotencyPolicy, idempotencyPolicy, type PolicyError } from "./policy-document.ts";
export { problemAnswer } from "./problem.ts";
export type { ProfileName } from "./profile-names.ts";
export { type Current, type CurrentResponse, current } from "./replay.ts";
