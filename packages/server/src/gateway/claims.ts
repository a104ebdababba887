/**
 * Reads who a token belongs to from the text of its payload. `JSON.parse` is not enough: it rounds numbers, so that two
 * owners become one, and of a member that is named twice it keeps the last, where the service may read the first.
 */

/** Whose a token is. `type` keeps the text `42` and the number 42 apart. */
export interface Owner {
  readonly type: "s" | "n";
  readonly value: string;
  /** The token's issuer: a claim names one owner only among those of its issuer. */
  readonly issuer: string | undefined;
}

/** Strings, punctuation, and everything else that stands between them. */
const JSON_TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;
const WHOLE_NUMBER = /^(?:0|-?[1-9]\d*)$/;

/**
 * `payload` is valid JSON. Undefined unless the claim is a string that is not empty, or an integer within 2^53 that is
 * written without a fraction or an exponent; also if any claim is named twice, or the issuer is not a string.
 */
export function ownerIn(payload: string, claim: string): Owner | undefined {
  const members = membersIn(payload);
  const written = members?.get(claim);
  const issuerWritten = members?.get("iss");
  const issuer = textIn(issuerWritten);
  if (written === undefined || (issuerWritten !== undefined && issuer === undefined)) return undefined;
  const text = textIn(written);
  if (text !== undefined) return { type: "s", value: text, issuer };
  const isOwner = WHOLE_NUMBER.test(written) && Number.isSafeInteger(Number(written));
  return isOwner ? { type: "n", value: written, issuer } : undefined;
}

/** A string that is not empty and has no lone surrogate: a digest would make all of those one. */
function textIn(written: string | undefined): string | undefined {
  if (written === undefined || !written.startsWith('"')) return undefined;
  const text = JSON.parse(written) as string;
  return text !== "" && text.isWellFormed() ? text : undefined;
}

/** Each member of the object with the first token of its value, as written. Undefined if a name comes twice. */
function membersIn(json: string): ReadonlyMap<string, string> | undefined {
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
