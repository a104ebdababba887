/** The part of JSON Schema 2020-12 that our fragments use. An unknown keyword is reported as a problem. */

type Schema = Readonly<Record<string, unknown>>;

const ANNOTATIONS = new Set([
  "description",
  "format",
  "contentEncoding",
  "contentMediaType",
  "contentSchema",
]);

type Judge = (wanted: never, value: unknown) => boolean;

const JUDGES: Readonly<Record<string, Judge>> = {
  type: (wanted: string, value) => typeNames(value).includes(wanted),
  enum: (wanted: readonly unknown[], value) => wanted.includes(value),
  const: (wanted: unknown, value) => wanted === value,
  minLength: (wanted: number, value) => typeof value !== "string" || value.length >= wanted,
  maxLength: (wanted: number, value) => typeof value !== "string" || value.length <= wanted,
  pattern: (wanted: string, value) => typeof value !== "string" || new RegExp(wanted, "u").test(value),
  minimum: (wanted: number, value) => typeof value !== "number" || value >= wanted,
  maximum: (wanted: number, value) => typeof value !== "number" || value <= wanted,
  minItems: (wanted: number, value) => !Array.isArray(value) || value.length >= wanted,
  required: (wanted: readonly string[], value) =>
    !isObject(value) || wanted.every((name) => Object.hasOwn(value, name)),
};

export function schemaProblems(schema: object, value: unknown, path = "value"): readonly string[] {
  return Object.entries(schema).flatMap(([keyword, wanted]) => {
    if (ANNOTATIONS.has(keyword)) return [];
    if (keyword === "properties") return memberProblems(wanted as Schema, value, path);
    if (keyword === "items")
      return Array.isArray(value)
        ? value.flatMap((item, i) => schemaProblems(wanted as object, item, `${path}[${i}]`))
        : [];
    const judge = JUDGES[keyword];
    if (judge === undefined) return [`${path}: there is no keyword ${keyword}`];
    return judge(wanted as never, value) ? [] : [`${path}: not ${keyword} ${JSON.stringify(wanted)}`];
  });
}

function memberProblems(properties: Schema, value: unknown, path: string): readonly string[] {
  if (!isObject(value)) return [];
  return Object.entries(properties).flatMap(([name, schema]) =>
    Object.hasOwn(value, name) ? schemaProblems(schema as object, value[name], `${path}.${name}`) : [],
  );
}

function typeNames(value: unknown): readonly string[] {
  if (value === null) return ["null"];
  if (Array.isArray(value)) return ["array"];
  if (Number.isInteger(value)) return ["integer", "number"];
  return [typeof value];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
