/** A header value with parameters, such as `multipart/form-data; boundary=x` or `form-data; name="a"`. */

export interface ParameterizedValue {
  /** What stands before the parameters, in lower case. */
  readonly value: string;
  /** By name in lower case. A quoted text is kept as it was sent: what a backslash in it means differs by sender. */
  readonly parameters: ReadonlyMap<string, string>;
}

const VALUE = /[\w!#$%&'*+\-.^`|~/]+/y;
const PARAMETER = /[ \t]*;[ \t]*(?:([\w!#$%&'*+\-.^`|~]+)=(?:([\w!#$%&'*+\-.^`|~]+)|"((?:[^"\\]|\\.)*)"))?/y;

/** Undefined for what is malformed, or names a parameter twice. */
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

/** Without the spaces and tabs around it. Other white space is text like any other. */
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
