/**
 * Reads the owner of a token from the text of its payload. `JSON.parse` is not enough: it rounds large numbers, so that
 * two owners become one, and of a duplicate member it returns the last, while the service may read the first.
 */

/** The owner of a token. `type` distinguishes the text `42` from the number 42. */
export interface Owner {
  readonly type: "s" | "n";
  readonly value: string;
  /** The issuer of the token: the same claim of another issuer is another owner. */
  readonly issuer: string | undefined;
}

/** Matches strings, punctuation, and everything between them. */
const JSON_TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;
const WHOLE_NUMBER = /^(?:0|-?[1-9]\d*)$/;

/**
 * `payload` is valid JSON. Undefined unless the claim is a non-empty string, or an integer within 2^53 that is written
 * without a fraction or an exponent; also undefined if any claim is named twice, or the issuer is not a string.
 */
export function readOwner(payload: string, claim: string): Owner | undefined {
  const members = parseMembers(payload);
  const written = members?.get(claim);
  const issuerWritten = members?.get("iss");
  const issuer = parseText(issuerWritten);
  if (written === undefined || (issuerWritten !== undefined && issuer === undefined)) return undefined;
  const text = parseText(written);
  if (text !== undefined) return { type: "s", value: text, issuer };
  const isOwner = WHOLE_NUMBER.test(written) && Number.isSafeInteger(Number(written));
  return isOwner ? { type: "n", value: written, issuer } : undefined;
}

/** Undefined for an empty string and for one with a lone surrogate, since digests treat all lone surrogates as equal. */
function parseText(written: string | undefined): string | undefined {
  if (written === undefined || !written.startsWith('"')) return undefined;
  const text = JSON.parse(written) as string;
  return text !== "" && text.isWellFormed() ? text : undefined;
}

/** Maps each member of the object to the first token of its value, as written. Undefined if a name is used twice. */
function parseMembers(json: string): ReadonlyMap<string, string> | undefined {
  const members = new Map<string, string>();
  let depth = 0;
  let name: string | undefined;
  let before = "";
  for (const [token] of json.matchAll(JSON_TOKEN)) {
    if (depth === 1 && token === ":") name = JSON.parse(before) as string;
    else if (name !== undefined) {
      if (members.has(name)) return undefined;
      members.set(name, token);
      name = undefined;
    }
    if (token === "{" || token === "[") depth++;
    if (token === "}" || token === "]") depth--;
    before = token;
  }
  return members;
}
