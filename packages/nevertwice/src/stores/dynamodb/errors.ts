/**
 * What the errors of the AWS SDK and of DynamoDB mean to the caller. Only a service that cannot be reached, or does not
 * keep up, is `unavailable`. Every other error that the service reported means that it refused a request: `store-unsafe`.
 * An error that did not come from the service is returned unchanged.
 */
import {
  CONNECTION_CODES,
  type DriverErrorRule,
  type DriverErrorTable,
  translateDriverError,
} from "../driver-errors.ts";

const CREDENTIALS =
  "DynamoDB refused the credentials, or they do not allow enough on this table (GetItem, PutItem, UpdateItem, DeleteItem, Scan).";
const UNREACHABLE = "DynamoDB cannot be reached, or does not keep up.";

interface SdkError {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly Item?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

function rulesFor(table: string): readonly DriverErrorRule[] {
  return [
    {
      codes: [
        "AccessDeniedException",
        "CredentialsProviderError",
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
      ],
      code: "store-unsafe",
      says: CREDENTIALS,
    },
    {
      codes: ["ResourceNotFoundException"],
      code: "store-unsafe",
      says: `there is no table ${table}. Create it with dynamodbTable(name), or check the region of the client.`,
    },
    {
      codes: ["ValidationException"],
      text: /\bkey\b/i,
      code: "store-unsafe",
      says: `the key of the table ${table} must be id, a string, as dynamodbTable(name) defines it.`,
    },
    // The SDK mentions wrapNumbers when an item contains a number that no record has.
    { text: /wrapNumbers/, code: "store-unsafe", says: `a record in the table ${table} is damaged.` },
    {
      codes:
        /^(ProvisionedThroughputExceeded|Throttling|RequestLimitExceeded|LimitExceeded|InternalServer|ServiceUnavailable|RequestTimeout|TransactionConflict|ReplicatedWriteConflict|TimeoutError|NetworkingError|AbortError)/,
      code: "unavailable",
      says: UNREACHABLE,
    },
    { codes: CONNECTION_CODES, code: "unavailable", says: UNREACHABLE },
  ];
}

function errorTable(table: string): DriverErrorTable {
  return {
    rules: rulesFor(table),
    codesOf(error) {
      const { name, code } = (error ?? {}) as SdkError;
      return [name, code];
    },
    otherwise(error) {
      const status = (error as SdkError | null)?.$metadata?.httpStatusCode ?? 0;
      if (status >= 500) return { code: "unavailable", says: UNREACHABLE };
      if (status < 400) return undefined;
      return {
        code: "store-unsafe",
        says: `DynamoDB refused a request of the store for the table ${table}.`,
      };
    },
  };
}

/** Translates an error of the SDK; returns one that did not come from the service unchanged. */
export function toStoreError(error: unknown, table: string): unknown {
  return translateDriverError(error, errorTable(table));
}

/**
 * In a global table with strong consistency, another region writes the same item. The write was not carried out, and may be
 * repeated: its mark tells whether it was.
 */
export function isConflictOfRegions(error: unknown): boolean {
  return (error as SdkError | null)?.name === "ReplicatedWriteConflictException";
}

/** The credentials are valid, but do not allow this request. */
export function isAccessDenied(error: unknown): boolean {
  return (error as SdkError | null)?.name === "AccessDeniedException";
}

/**
 * Defined if the condition of a write was false. `item` is the current item as DynamoDB attributes, if the service
 * returned it.
 */
export function failedCondition(
  error: unknown,
): { readonly item: Readonly<Record<string, unknown>> | undefined } | undefined {
  const { name, Item } = (error ?? {}) as SdkError;
  if (name !== "ConditionalCheckFailedException") return undefined;
  return { item: Item as Readonly<Record<string, unknown>> | undefined };
}
