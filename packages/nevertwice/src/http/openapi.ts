/** Describes what the layer adds to a route, as fragments for an OpenAPI 3.1 document. */
import type { Engine } from "../core/engine.ts";
import type { HttpOptions } from "./options.ts";
import { listRefusals, type PossibleRefusal, wireCode } from "./policy-document.ts";
import { PROBLEM_TITLES, retryAfterSeconds } from "./problem.ts";
import { type ResolvedHttpOptions, resolveHttpOptions } from "./resolved-options.ts";

/** A JSON Schema in the dialect of OpenAPI 3.1. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** The parameter of an operation for the header of the key, as OpenAPI has it. */
export interface OpenApiParameter {
  /** The name of the header. */
  readonly name: string;
  /** Always the header. */
  readonly in: "header";
  /** What the key is for, for people. */
  readonly description: string;
  /** Whether a request without a key is refused. */
  readonly required: boolean;
  /** The form of the key. */
  readonly schema: JsonSchema;
}

/** A header of a response, as OpenAPI has it. */
export interface OpenApiHeader {
  /** What the header says, for people. */
  readonly description: string;
  /** The form of the value. */
  readonly schema: JsonSchema;
}

/** A response of an operation, as OpenAPI has it. */
export interface OpenApiResponse {
  /** When this response is sent, for people. */
  readonly description: string;
  /** The headers of the response, by name. */
  readonly headers: Readonly<Record<string, OpenApiHeader>>;
  /** The body, by media type. */
  readonly content: Readonly<
    Record<
      string,
      {
        /** The form of the body. */
        readonly schema: JsonSchema;
      }
    >
  >;
}

/** What an operation with idempotency adds to an OpenAPI document. */
export interface OpenApiFragments {
  /** For the `parameters` of the operation. Empty if the key is in the body. */
  readonly parameters: readonly OpenApiParameter[];
  /** To combine by `allOf` with the schema of the request's body, if the key is in the body. */
  readonly requestSchema?: JsonSchema;
  /** For the `headers` of the operation's own responses. */
  readonly headers: Readonly<Record<string, OpenApiHeader>>;
  /** For the `responses` of the operation: the refusals of the layer, by status. */
  readonly responses: Readonly<Record<string, OpenApiResponse>>;
}

/**
 * The parameters and responses that the layer adds to an operation of an OpenAPI document.
 * @throws `options-invalid`
 */
export function openapiFragments<Native>(guard: Engine, options: HttpOptions<Native>): OpenApiFragments {
  const resolved = resolveHttpOptions(guard, options);
  const { keyField } = resolved;
  return {
    parameters: keyField === undefined ? toParameters(resolved) : [],
    ...(keyField === undefined ? {} : { requestSchema: requestSchema(resolved, keyField) }),
    headers: describeHeaders(resolved),
    responses: toResponses(resolved),
  };
}

function toParameters<Native>(options: ResolvedHttpOptions<Native>): readonly OpenApiParameter[] {
  const { profile, header, required } = options;
  const carriers = profile.key?.parameters(header, keySchema(options), required) ?? [
    { name: header, required, schema: headerSchema(options) },
  ];
  return carriers.map((carrier) => ({
    name: carrier.name,
    in: "header",
    description: carrier.name === header ? describeKey(options) : `Required together with ${header}.`,
    required: carrier.required,
    schema: carrier.schema as JsonSchema,
  }));
}

function describeKey<Native>({
  profile,
  header,
  strict,
  maxKeyLength,
  retentionMs,
}: ResolvedHttpOptions<Native>): string {
  const form =
    profile.key !== undefined
      ? `Carries ${profile.key.carrier(header)}`
      : strict
        ? "A key in double quotes (a String of RFC 9651)"
        : "A key, bare or in double quotes (a String of RFC 9651)";
  return `${form}, of up to ${maxKeyLength} characters. Send a new key with every new request, and the same key with every retry of it. A retry within ${retentionMs} ms gets the first response again.`;
}

/** The schema of the key itself. */
function keySchema<Native>({ maxKeyLength, keyPattern }: ResolvedHttpOptions<Native>): JsonSchema {
  return {
    type: "string",
    minLength: 1,
    maxLength: maxKeyLength,
    ...(keyPattern === undefined || keyPattern.flags.replace("u", "") !== ""
      ? {}
      : { pattern: keyPattern.source }),
  };
}

/** The schema of the key as a header value: in quotes, where each character may be escaped by a second one, or without. */
function headerSchema<Native>({
  maxKeyLength,
  keyPattern,
  strict,
  profile,
}: ResolvedHttpOptions<Native>): JsonSchema {
  const form = keyPattern === undefined ? undefined : wholeForm(keyPattern);
  const quoted = form ?? `(?:[ !#-\\[\\]-~]|\\\\["\\\\]){1,${maxKeyLength}}`;
  const bare =
    form ??
    (profile.bareKeys === "any"
      ? `[^",\\x00- \\x7f][^,\\x00-\\x1f\\x7f]{0,${maxKeyLength - 1}}`
      : `[!#-+\\--~]{1,${maxKeyLength}}`);
  return {
    type: "string",
    minLength: 1,
    maxLength: 2 * maxKeyLength + 2,
    pattern: strict ? `^"${quoted}"` : `^(?:"${quoted}"|${bare}$)`,
  };
}

/** The pattern without its anchors, if it covers the whole key; undefined if it does not, or if it has flags. */
function wholeForm({ source, flags }: RegExp): string | undefined {
  const isWhole = source.startsWith("^") && source.endsWith("$") && !source.endsWith("\\$");
  return isWhole && flags.replace("u", "") === "" && !source.includes("|")
    ? `(?:${source.slice(1, -1)})`
    : undefined;
}

function requestSchema<Native>(options: ResolvedHttpOptions<Native>, keyField: string): JsonSchema {
  return {
    type: "object",
    properties: { [keyField]: keySchema(options) },
    ...(options.required ? { required: [keyField] } : {}),
  };
}

function describeHeaders<Native>({
  profile,
  header,
  replayedHeader,
}: ResolvedHttpOptions<Native>): OpenApiFragments["headers"] {
  return {
    [replayedHeader]: {
      description: "Present, and true, if this is a replay of an earlier response.",
      schema: { type: "string", const: "true" },
    },
    ...addedHeaders(profile.added?.describe(header)),
  };
}

function addedHeaders(
  described: Readonly<Record<string, { description: string; schema: object }>> = {},
): OpenApiFragments["headers"] {
  return described as OpenApiFragments["headers"];
}

function toResponses<Native>(options: ResolvedHttpOptions<Native>): OpenApiFragments["responses"] {
  const refusals = listRefusals(options);
  const statuses = [...new Set(refusals.map(({ status }) => status))];
  return Object.fromEntries(
    statuses.map((status) => {
      const these = refusals.filter((refusal) => refusal.status === status);
      return [String(status), toOpenApiResponse(options, status, these)];
    }),
  );
}

function toOpenApiResponse<Native>(
  options: ResolvedHttpOptions<Native>,
  status: number,
  refusals: readonly PossibleRefusal[],
): OpenApiResponse {
  const { profile, header } = options;
  const { body } = profile.problems;
  const titles = new Set(refusals.map(({ code }) => PROBLEM_TITLES[code]));
  const wireCodes = [...new Set(refusals.map(({ code }) => wireCode(options, code)))];
  const isRetried = refusals.some(({ code }) => retryAfterSeconds(code) !== undefined);
  const schema =
    body === undefined ? problemSchema(status, wireCodes) : (body.schema(wireCodes) as JsonSchema);
  return {
    description: [...titles].map((title) => `${title}.`).join(" "),
    headers: {
      ...(isRetried
        ? {
            "Retry-After": {
              description: "Seconds to wait.",
              schema: { type: "integer", minimum: 1, maximum: 30 },
            },
          }
        : {}),
      ...addedHeaders(profile.added?.describe(header)),
    },
    content: { [body === undefined ? "application/problem+json" : "application/json"]: { schema } },
  };
}

/** The schema of problem details (RFC 9457) with our own members. */
function problemSchema(status: number, codes: readonly string[]): JsonSchema {
  return {
    type: "object",
    properties: {
      type: { type: "string", format: "uri-reference" },
      title: { type: "string" },
      status: { const: status },
      detail: { type: "string" },
      code: { enum: codes },
      retryable: { type: "boolean" },
      documentation: { type: "string", format: "uri-reference" },
      ...(codes.includes("pending") ? { elapsedMs: { type: "integer", minimum: 0 } } : {}),
    },
    required: ["type", "title", "status", "detail", "code", "retryable"],
  };
}
