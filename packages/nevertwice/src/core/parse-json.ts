/**
 * `JSON.parse` for values of applications, right where V8 is wrong. Since version 13 (Node 24, Deno, Chrome, workerd) it may
 * read an escaped name of a member as another one: after `{"\\":1}` it reads `{"\n":1}` as `{"\\":1}`, if the members before are
 * the same (https://github.com/nodejs/node/issues/63785). A replay would differ from the outcome, and two different requests
 * would have one fingerprint.
 */

/** A string, and the colon behind it if it is a name. Outside of strings a text has no quotes. */
const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/gs;
const TOKEN = /[{}[\]:,]|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s{}[\]:,"]+/gs;

/** Throws a SyntaxError like `JSON.parse`. */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return hasEscapedName(text) ? readTokens(text) : value;
}

function hasEscapedName(text: string): boolean {
  if (!text.includes("\\")) return false;
  for (const [string, colon] of text.matchAll(STRING))
    if (colon !== undefined && string.includes("\\")) return true;
  return false;
}

/** Reads a text that is known to be JSON. A loop, since a text may be nested more deeply than functions can be. */
function readTokens(text: string): unknown {
  const open: object[] = [];
  let root: unknown;
  let name: string | undefined;

  const add = (value: unknown) => {
    const parent = open.at(-1);
    if (parent === undefined) root = value;
    else if (Array.isArray(parent)) parent.push(value);
    // An assignment to a member called __proto__ would set the prototype.
    else Object.defineProperty(parent, name as string, { value, ...PLAIN });
    name = undefined;
  };

  for (const [token] of text.matchAll(TOKEN)) {
    if (token === ":" || token === ",") continue;
    const parent = open.at(-1);
    if (token === "}" || token === "]") open.pop();
    else if (parent !== undefined && !Array.isArray(parent) && name === undefined) name = JSON.parse(token);
    else if (token === "{" || token === "[") {
      const container = token === "{" ? {} : [];
      add(container);
      open.push(container);
    } else add(JSON.parse(token));
  }
  return root;
}

const PLAIN = { writable: true, enumerable: true, configurable: true };
