/** Reads header values with parameters, such as `multipart/form-data; boundary=x` or `form-data; name="a"`. */

export interface ParameterizedValue {
  /** The part in front of the parameters, in lower case. */
  readonly value: string;
  /** By lower-case name. Escapes in a quoted value stay as sent, since senders use the backslash differently. */
  readonly parameters: ReadonlyMap<string, string>;
}

const VALUE = /[\w!#$%&'*+\-.^`|~/]+/y;
const PARAMETER = /[ \t]*;[ \t]*(?:([\w!#$%&'*+\-.^`|~]+)=(?:([\w!#$%&'*+\-.^`|~]+)|"((?:[^"\\]|\\.)*)"))?/y;

/** Undefined if the value is malformed or names a parameter twice. */
export function readParameters(header: string): ParameterizedValue | undefined {
  const text = trimBlanks(header);
  VALUE.lastIndex = 0;
  const value = VALUE.exec(text)?.[0];
  if (value === undefined) return undefined;
  const parameters = new Map<string, string>();
  for (let at = value.length; at < text.length; at = PARAMETER.lastIndex) {
    PARAMETER.lastIndex = at;
    const match = PARAMETER.exec(text);
    if (match === null) return undefined;
    const name = match[1]?.toLowerCase();
    if (name === undefined) continue;
    if (parameters.has(name)) return undefined;
    parameters.set(name, match[2] ?? match[3] ?? "");
  }
  return { value: value.toLowerCase(), parameters };
}

/** Removes spaces and tabs at both ends, but no other white space. */
export function trimBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (start < end && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
