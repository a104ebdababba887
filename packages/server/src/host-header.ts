/** Parses the `Host` header: a name or an address, and a port. Text that is neither is never compared with a name. */
import { isIP } from "node:net";

/** The loopback interface, as a `Host` header names it. */
export const LOOPBACK_NAMES = ["127.0.0.1", "localhost", "[::1]"];

/** Whether a listen address can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

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

/** Counts the header lines with this name. If there are two, one program may read the first and another the second. */
export function countLines(rawHeaders: readonly string[], name: string): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]?.length === name.length && rawHeaders[i]?.toLowerCase() === name) count++;
  return count;
}
