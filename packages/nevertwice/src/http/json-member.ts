/** Counts how often a JSON object names a member. `JSON.parse` takes the last of several; other parsers take the first. */

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
