/**
 * The first check of every request to the API and the dashboard: its `Host` must be a name of this server, and its
 * `Origin` must be the same address. Without it, a page of another site could have its own name resolve to 127.0.0.1
 * and so reach a server that listens on the user's machine only.
 */
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { NevertwiceError } from "nevertwice";
import { countLines, LOOPBACK_NAMES, parseHost } from "./host-header.ts";

/** Throws `request-invalid` for too many headers, and `not-authorized` for a foreign Host or Origin. */
export type AddressCheck = (request: Pick<IncomingMessage, "headers" | "rawHeaders">) => void;

/** The most headers in one request. Node itself would silently drop those after the 2,000th. */
const MAX_HEADERS = 100;

/** `hosts` are the names by which clients may call the server, without ports. Loopback names are always allowed. */
export function createAddressCheck(hosts: readonly string[]): AddressCheck {
  const names = hosts.map((host) => (isIP(host) === 6 ? `[${host}]` : host).toLowerCase());
  const allowed = new Set([...LOOPBACK_NAMES, ...names]);
  const isAllowed = (host: string) => allowed.has(host.toLowerCase());

  return ({ headers, rawHeaders }) => {
    if (rawHeaders.length > 2 * MAX_HEADERS)
      throw new NevertwiceError("request-invalid", `the request has more than ${MAX_HEADERS} headers.`);
    const host = parseHost(headers.host ?? "")?.name ?? "";
    if (!isAllowed(host) || countLines(rawHeaders, "host") !== 1) {
      throw new NevertwiceError(
        "not-authorized",
        "the Host header does not name this server; if the name is right, start the server with --allow-host NAME.",
      );
    }
    const { origin } = headers;
    if (origin === undefined) return;
    const from = URL.canParse(origin) ? new URL(origin) : undefined;
    if (from !== undefined && isAllowed(from.hostname) && from.host === (headers.host ?? "").toLowerCase())
      return;
    throw new NevertwiceError("not-authorized", "the request comes from a page of another origin.");
  };
}
