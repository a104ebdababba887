/** Members of JSON objects: how often one is named, and the object without it. `JSON.parse` takes the last of several; other parsers take the first. */

/** Strings, punctuation, and the text between them. */
const JSON_TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;

/** `json` must be valid JSON of an object. Members of nested objects are not counted. */
export function countMember(json: string, name: string): number {
  let times = 0;
  let depth = 0;
  let before = "";
  for (const [token] of json.matchAll(JSON_TOKEN)) {
    if (token === ":" && depth === 1 && JSON.parse(before) === name) times++;
    if (token === "{" || token === "[") depth++;
    if (token === "}" || token === "]") depth--;
    before = token;
  }
  return times;
}

/** The value without the member at this path. It is a copy, since the handler uses the same parsed body. */
export function withoutMember(value: unknown, [name = "", ...further]: readonly string[]): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  if (!Object.prototype.propertyIsEnumerable.call(value, name)) return value;
  const { [name]: member, ...others } = value as Record<string, unknown>;
  return further.length === 0 ? others : { ...others, [name]: withoutMember(member, further) };
}
