/** The `Host` of a request: a name or an address, and a port. Anything else is refused before it is compared. */

export interface Host {
  /** In lower case; an IPv6 address keeps its brackets. */
  readonly name: string;
  readonly port: number | undefined;
}

const HOST = /^([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?$/i;
const MAX_PORT = 65_535;

/** Undefined if the text is not a host: `localhost:80@evil.com` and `[::1].evil.com` are not. */
export function parseHost(text: string): Host | undefined {
  const [, name, digits] = HOST.exec(text) ?? [];
  const port = digits === undefined ? undefined : Number(digits);
  if (name === undefined || (port !== undefined && port > MAX_PORT)) return undefined;
  return { name: name.toLowerCase(), port };
}

/** How many lines of this name the request has. With two, one program reads the first and another the second. */
export function countLines(rawHeaders: readonly string[], name: string): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]?.length === name.length && rawHeaders[i]?.toLowerCase() === name) count++;
  return count;
}
