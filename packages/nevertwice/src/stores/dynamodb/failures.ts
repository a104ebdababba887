/** What the SDK's and the service's errors mean to a guard. Whatever is not here passes as it is. */
import { type ErrorCode, isNevertwiceError, NevertwiceError } from "../../core/errors.ts";

const CREDENTIALS =
  "DynamoDB refused the credentials, or they allow too little on this table (GetItem, PutItem, UpdateItem, DeleteItem, Scan).";

const UNSAFE: Readonly<Record<string, string>> = {
  AccessDeniedException: CREDENTIALS,
  CredentialsProviderError: CREDENTIALS,
  ExpiredTokenException: CREDENTIALS,
  IncompleteSignatureException: CREDENTIALS,
  InvalidSignatureException: CREDENTIALS,
  MissingAuthenticationTokenException: CREDENTIALS,
  UnrecognizedClientException: CREDENTIALS,
};

/** Throttled, overloaded, out of order, unreachable. */
const UNAVAILABLE =
  /^(ProvisionedThroughputExceeded|Throttling|RequestLimitExceeded|LimitExceeded|InternalServer|ServiceUnavailable|RequestTimeout|TransactionConflict|ReplicatedWriteConflict|TimeoutError|NetworkingError|AbortError)/;
const UNAVAILABLE_CODE = /^E(CONN|PIPE|TIMEDOUT|NOTFOUND|AI_AGAIN|HOST|NET)/;

interface SdkError {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly message?: unknown;
  readonly Item?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

export function failure(error: unknown, table: string): unknown {
  if (isNevertwiceError(error)) return error;
  const { name, code, message, $metadata } = (error ?? {}) as SdkError;
  const as = (ours: ErrorCode, text: string) =>
    new NevertwiceError(ours, `${text} (${String(message)})`, { cause: error });
  const unsafe = UNSAFE[String(name)];
  if (unsafe !== undefined) return as("store-unsafe", unsafe);
  if (name === "ResourceNotFoundException") {
    const toDo = "Create it with dynamodbTable(name), or look whether the client has the right region";
    return as("store-unsafe", `there is no table ${table}. ${toDo}.`);
  }
  if (name === "ValidationException" && /\bkey\b/i.test(String(message)))
    return as(
      "store-unsafe",
      `the key of the table ${table} must be id, a string, as dynamodbTable(name) has it.`,
    );
  const isDown = ($metadata?.httpStatusCode ?? 0) >= 500;
  if (isDown || UNAVAILABLE.test(String(name ?? "")) || UNAVAILABLE_CODE.test(String(code ?? "")))
    return as("unavailable", "DynamoDB cannot be reached, or does not keep up.");
  return error;
}

/** The credentials are good, but not for this. */
export function isNotAllowed(error: unknown): boolean {
  return (error as SdkError | null)?.name === "AccessDeniedException";
}

/** The condition of a write did not hold; `item` is what stood there, in attributes, from a service that tells. */
export function overtakenBy(
  error: unknown,
): { readonly item: Readonly<Record<string, unknown>> | undefined } | undefined {
  const { name, Item } = (error ?? {}) as SdkError;
  if (name !== "ConditionalCheckFailedException") return undefined;
  return { item: Item as Readonly<Record<string, unknown>> | undefined };
}
