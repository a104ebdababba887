/** The members and types that OpenAPI 3.1 requires of our fragments. Unknown members are reported. */

type Members = Readonly<Record<string, unknown>>;
type Judge = (value: unknown, path: string) => readonly string[];

function shape(
  required: Readonly<Record<string, Judge>>,
  optional: Readonly<Record<string, Judge>> = {},
): Judge {
  return (value, path) => {
    if (!isObject(value)) return [`${path} is no object`];
    const missing = Object.keys(required).filter((name) => !Object.hasOwn(value, name));
    const judges: Readonly<Record<string, Judge>> = { ...required, ...optional };
    return [
      ...missing.map((name) => `${path} lacks ${name}`),
      ...Object.entries(value).flatMap(([name, member]) => {
        const judge = judges[name];
        return judge === undefined ? [`${path} has ${name}`] : judge(member, `${path}.${name}`);
      }),
    ];
  };
}

function each(name: RegExp, judge: Judge): Judge {
  return (value, path) => {
    if (!isObject(value)) return [`${path} is no object`];
    return Object.entries(value).flatMap(([member, inside]) => [
      ...(name.test(member) ? [] : [`${path} has ${member}`]),
      ...judge(inside, `${path}.${member}`),
    ]);
  };
}

function list(judge: Judge): Judge {
  return (value, path) =>
    Array.isArray(value) ? value.flatMap((item, i) => judge(item, `${path}[${i}]`)) : [`${path} is no list`];
}

const text: Judge = (value, path) =>
  typeof value === "string" && value !== "" ? [] : [`${path} is no text`];
const truth: Judge = (value, path) => (typeof value === "boolean" ? [] : [`${path} is not true or false`]);
const HEADER_NAME = /^[A-Za-z-]+$/;

/** A schema is an object whose patterns are patterns, all the way down. */
const schema: Judge = (value, path) => {
  if (!isObject(value)) return [`${path} is no schema`];
  return Object.entries(value).flatMap(([name, inside]) => {
    if (name === "pattern") return isPattern(inside) ? [] : [`${path}.pattern is none`];
    if (name === "enum") return Array.isArray(inside) && inside.length > 0 ? [] : [`${path}.enum is empty`];
    if (name === "properties") return each(/./, schema)(inside, `${path}.properties`);
    if (name === "items" || name === "contentSchema") return schema(inside, `${path}.${name}`);
    if (name === "allOf") return list(schema)(inside, `${path}.allOf`);
    return [];
  });
};

function isPattern(value: unknown): boolean {
  try {
    return typeof value === "string" && new RegExp(value, "u") instanceof RegExp;
  } catch {
    return false;
  }
}

/** Content-Type, Accept and Authorization are ignored as parameters, and Content-Type as a header of a response. */
const parameterName: Judge = (value, path) =>
  typeof value === "string" &&
  HEADER_NAME.test(value) &&
  !/^(accept|content-type|authorization)$/i.test(value)
    ? []
    : [`${path} is no name of a parameter`];

const parameter = shape(
  { name: parameterName, in: (value, path) => (value === "header" ? [] : [`${path} is no header`]) },
  { description: text, required: truth, schema },
);
const header = shape({ schema }, { description: text });
const headers = each(/^(?!content-type$)[A-Za-z-]+$/i, header);
const content = each(/^[\w.+-]+\/[\w.+-]+$/, shape({}, { schema }));
const responses = each(/^[1-5]\d\d$/, shape({ description: text }, { headers, content }));
const operation = shape({ responses }, { parameters: list(parameter), requestBody: shape({ content }) });

/** The problems of a description; empty if it is valid. */
export function openapiProblems(document: Members): readonly string[] {
  return shape({
    openapi: (value, path) => (/^3\.1\.\d+$/.test(String(value)) ? [] : [`${path} is not 3.1`]),
    info: shape({ title: text, version: text }),
    paths: each(/^\//, each(/^post$/, operation)),
  })(document, "document");
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
