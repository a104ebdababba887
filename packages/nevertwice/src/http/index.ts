/** Shared by all adapters: option types, profile names, `current`, the policy document, and OpenAPI fragments. */

export { type Current, type CurrentOptions, current } from "./current-replay.ts";
export type { HttpAttempt, KeepDecision } from "./http-attempt.ts";
export type { HeaderLine, HttpResponse } from "./http-message.ts";
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
export {
  type ProblemAnswer,
  type ProblemAnswerOptions,
  problemAnswer,
  retryAdvice,
} from "./problem-answer.ts";
export type { ProfileName } from "./profile-names.ts";
export { profileOptions } from "./profiles.ts";
export {
  type CurrentResponse,
  type GivenResponse,
  type KeptResponse,
  keptResponse,
  type StoredHttpResponse,
  storedResponse,
} from "./replay.ts";
export { type MatchedRoute, normalPath, type PathSegment } from "./route-path.ts";
