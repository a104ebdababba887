/** How often an object names a member: `JSON.parse` keeps the last of several, where another reader takes the first. */

/** Strings, punctuation, and everything else that stands between them. */
const JSON_TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;

/** `json` is valid JSON of an object. Objects inside it are not looked at. */
export function timesNamed(json: string, name: string): number {
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
