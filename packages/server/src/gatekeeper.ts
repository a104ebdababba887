/**
 * Who is let in: the Host and the Origin of every request are checked first, so that no page of a stranger reaches a
 * server on somebody's own machine; then its access token, or the dashboard's session.
 */
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { NevertwiceError } from "nevertwice";
import type { Access, Caller, Role } from "./access.ts";
import { ROLES } from "./access.ts";
import type { FailedTries } from "./failed-tries.ts";
import { countLines, parseHost } from "./host-header.ts";
import type { Sessions } from "./sessions.ts";

export interface Gatekeeper {
  /** Throws `request-invalid` for too many headers, and `not-authorized` for a Host or Origin that is not ours. */
  checkAddress(request: Pick<IncomingMessage, "headers" | "rawHeaders">): void;
  /**
   * Throws `not-authenticated` for a request without a valid token or session where one is needed, and
   * `quota-exceeded` if its address sent too many wrong tokens.
   */
  callerOf(request: IncomingMessage): Promise<Caller>;
  /** Opens a session for a token that the dashboard sends once. Counts wrong tokens as `callerOf` does. */
  signIn(request: IncomingMessage, token: string): ReturnType<Sessions["open"]>;
  /** The caller that `callerOf` found for this request; undefined before. */
  knownCaller(request: IncomingMessage): Caller | undefined;
  checkRole(caller: Caller, roles: readonly Role[]): void;
}

export interface GatekeeperOptions {
  readonly access: Access;
  readonly sessions: Sessions;
  readonly failedTries: FailedTries;
  readonly namespace: string;
  /** Names by which the server may be called, without their ports. */
  readonly hosts: readonly string[];
}

export const LOOPBACK = ["127.0.0.1", "localhost", "[::1]"];
const SAFE = ["GET", "HEAD", "OPTIONS"];
/** Headers of one request. Node itself would silently drop those after the 2,000th. */
const MAX_HEADERS = 100;

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

export function createGatekeeper(options: GatekeeperOptions): Gatekeeper {
  const { access, sessions, failedTries, namespace, hosts } = options;
  const names = hosts.map((host) => (isIP(host) === 6 ? `[${host}]` : host).toLowerCase());
  const allowed = new Set([...LOOPBACK, ...names]);
  const isAllowed = (host: string) => allowed.has(host.toLowerCase());
  const callers = new WeakMap<IncomingMessage, Caller>();

  async function find({ headers, method = "GET", socket }: IncomingMessage): Promise<Caller> {
    const bearer = /^Bearer\b *(.*)$/i.exec(headers.authorization ?? "")?.[1];
    if (bearer !== undefined) {
      const caller = await failedTries.attempt(socket.remoteAddress, bearer, () => access.verify(bearer));
      if (caller !== undefined) return caller;
      throw new NevertwiceError("not-authenticated", "the access token is not known, or was revoked.");
    }
    if (!(await access.isRequired()))
      return { name: "local", roles: ROLES, namespace, scope: "local", seesServer: true };
    const session = await sessions.callerOf(headers, SAFE.includes(method));
    if (session !== undefined) return session;
    throw new NevertwiceError(
      "not-authenticated",
      "an access token is needed: send Authorization: Bearer with one that `nevertwice access create` made.",
    );
  }

  return {
    checkAddress({ headers, rawHeaders }) {
      if (rawHeaders.length > 2 * MAX_HEADERS)
        throw new NevertwiceError("request-invalid", `the request has more than ${MAX_HEADERS} headers.`);
      const host = parseHost(headers.host ?? "")?.name ?? "";
      if (!isAllowed(host) || countLines(rawHeaders, "host") !== 1) {
        throw new NevertwiceError(
          "not-authorized",
          "the Host of the request is none of this server's names; start it with --allow-host NAME if it is.",
        );
      }
      const { origin } = headers;
      if (origin === undefined) return;
      const from = URL.canParse(origin) ? new URL(origin) : undefined;
      if (from !== undefined && isAllowed(from.hostname) && from.host === (headers.host ?? "").toLowerCase())
        return;
      throw new NevertwiceError("not-authorized", "the request comes from a page of another origin.");
    },

    async callerOf(request) {
      const caller = await find(request);
      callers.set(request, caller);
      return caller;
    },

    signIn: ({ socket }, token) =>
      failedTries.attempt(socket.remoteAddress, token, () => sessions.open(token)),

    knownCaller: (request) => callers.get(request),

    checkRole({ roles }, wanted) {
      if (wanted.length === 0 || wanted.some((role) => roles.includes(role))) return;
      throw new NevertwiceError(
        "not-authorized",
        `the access token's role is ${roles.join(", ")}; this needs ${wanted.join(" or ")}.`,
      );
    },
  };
}
