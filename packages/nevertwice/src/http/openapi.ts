/** What the layer adds to a route, as fragments of an OpenAPI 3.1 description: put them into yours. */
import type { Engine } from "../core/engine.ts";
import type { HttpOptions } from "./options.ts";
import { type PossibleRefusal, refusalsOf, wordOf } from "./policy-document.ts";
import { PROBLEM_TITLES, retryAfterSeconds } from "./problem.ts";
import { type Settings, settingsOf } from "./settings.ts";

/** A JSON Schema of the dialect that OpenAPI 3.1 uses. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export interface OpenApiParameter {
  readonly name: string;
  readonly in: "header";
  readonly description: string;
  readonly required: boolean;
  readonly schema: JsonSchema;
}

export interface OpenApiHeader {
  readonly description: string;
  readonly schema: JsonSchema;
}

export interface OpenApiResponse {
  readonly description: string;
  readonly headers: Readonly<Record<string, OpenApiHeader>>;
  readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

export interface OpenApiFragments {
  /** For the `parameters` of the operation; empty if the key is in the body. */
  readonly parameters: readonly OpenApiParameter[];
  /** For an `allOf` with the schema of the request's body, if the key is in there. */
  readonly requestSchema?: JsonSchema;
  /** For the `headers` of the operation's own responses. */
  readonly headers: Readonly<Record<string, OpenApiHeader>>;
  /** For the `responses` of the operation: what the layer answers itself, by status. */
  readonly responses: Readonly<Record<string, OpenApiResponse>>;
}

/** Fails with `options-invalid` as the adapter would. */
export function openapiFragments<Native>(guard: Engine, options: HttpOptions<Native>): OpenApiFragments {
  const settings = settingsOf(guard, options);
  return {
    parameters: settings.keyField === undefined ? parametersOf(settings) : [],
    ...(settings.keyField === undefined
      ? {}
      : { requestSchema: requestSchemaOf(settings, settings.keyField) }),
    headers: headersOf(settings),
    responses: responsesOf(settings),
  };
}

function parametersOf<Native>(settings: Settings<Native>): readonly OpenApiParameter[] {
  const { profile, header, required } = settings;
  const carriers = profile.key?.parameters(header, keySchema(settings), required) ?? [
    { name: header, required, schema: headerSchema(settings) },
  ];
  return carriers.map((carrier) => ({
    name: carrier.name,
    in: "header",
    description: carrier.name === header ? descriptionOf(settings) : `Goes together with ${header}.`,
    required: carrier.required,
    schema: carrier.schema as JsonSchema,
  }));
}

function descriptionOf<Native>({
  profile,
  header,
  strict,
  maxKeyLength,
  retentionMs,
}: Settings<Native>): string {
  const form =
    profile.key !== undefined
      ? `Carries ${profile.key.carrier(header)}`
      : strict
        ? "A key in double quotes (a String of RFC 9651)"
        : "A key, bare or in double quotes (a String of RFC 9651)";
  return `${form}, of up to ${maxKeyLength} characters: new for every new request, the same on every retry of it. A retry within ${retentionMs} ms gets the first answer again.`;
}

/** The key itself. */
function keySchema<Native>({ maxKeyLength, keyPattern }: Settings<Native>): JsonSchema {
  return {
    type: "string",
    minLength: 1,
    maxLength: maxKeyLength,
    ...(keyPattern === undefined || keyPattern.flags.replace("u", "") !== ""
      ? {}
      : { pattern: keyPattern.source }),
  };
}

/** The key as a header's value: in quotes, in which each of its characters may take two, or bare. */
function headerSchema<Native>({ maxKeyLength, keyPattern, strict }: Settings<Native>): JsonSchema {
  const form = keyPattern === undefined ? undefined : wholeForm(keyPattern);
  const quoted = form ?? `(?:[ !#-\\[\\]-~]|\\\\["\\\\]){1,${maxKeyLength}}`;
  const bare = form ?? `[!#-+\\--~]{1,${maxKeyLength}}`;
  return {
    type: "string",
    minLength: 1,
    maxLength: 2 * maxKeyLength + 2,
    pattern: strict ? `^"${quoted}"` : `^(?:"${quoted}"|${bare}$)`,
  };
}

/** A pattern that stands for the whole key, without its anchors; undefined if it says less, or says it with flags. */
function wholeForm({ source, flags }: RegExp): string | undefined {
  const isWhole = source.startsWith("^") && source.endsWith("$") && !source.endsWith("\\$");
  return isWhole && flags.replace("u", "") === "" && !source.includes("|")
    ? `(?:${source.slice(1, -1)})`
    : undefined;
}

function requestSchemaOf<Native>(settings: Settings<Native>, keyField: string): JsonSchema {
  return {
    type: "object",
    properties: { [keyField]: keySchema(settings) },
    ...(settings.required ? { required: [keyField] } : {}),
  };
}

function headersOf<Native>({
  profile,
  header,
  replayedHeader,
}: Settings<Native>): OpenApiFragments["headers"] {
  return {
    [replayedHeader]: {
      description: "There, and true, if this is a replay of an earlier answer.",
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

function responsesOf<Native>(settings: Settings<Native>): OpenApiFragments["responses"] {
  const refusals = refusalsOf(settings);
  const statuses = [...new Set(refusals.map(({ status }) => status))];
  return Object.fromEntries(
    statuses.map((status) => {
      const these = refusals.filter((refusal) => refusal.status === status);
      return [String(status), responseOf(settings, status, these)];
    }),
  );
}

function responseOf<Native>(
  settings: Settings<Native>,
  status: number,
  refusals: readonly PossibleRefusal[],
): OpenApiResponse {
  const { profile, header } = settings;
  const { body } = profile.problems;
  const titles = new Set(refusals.map(({ code }) => PROBLEM_TITLES[code]));
  const words = [...new Set(refusals.map(({ code }) => wordOf(settings, code)))];
  const isRetried = refusals.some(({ code }) => retryAfterSeconds(code) !== undefined);
  const schema = body === undefined ? problemSchema(status, words) : (body.schema(words) as JsonSchema);
  return {
    description: [...titles].map((title) => `${title}.`).join(" "),
    headers: {
      ...(isRetried
        ? { "Retry-After": { description: "Seconds to wait.", schema: { type: "integer", minimum: 1 } } }
        : {}),
      ...addedHeaders(profile.added?.describe(header)),
    },
    content: { [body === undefined ? "application/problem+json" : "application/json"]: { schema } },
  };
}

/** Problem details (RFC 9457) with our own members. */
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
    },
    required: ["type", "title", "status", "detail", "code", "retryable"],
  };
}
