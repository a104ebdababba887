/** Decides who a caller is, by an access token or a session of the dashboard, and whether its role is enough. */
import type { IncomingMessage } from "node:http";
import { NevertwiceError } from "nevertwice";
import type { Access, Caller, Role } from "./access.ts";
import { ROLES } from "./access.ts";
import type { FailedTries } from "./failed-tries.ts";
import type { Sessions } from "./sessions.ts";

export interface Gatekeeper {
  /**
   * Returns the caller of the request. Throws `not-authenticated` for a request without a valid token or session where
   * one is required, and `quota-exceeded` if its address sent too many wrong tokens.
   */
  authenticate(request: IncomingMessage): Promise<Caller>;
  /** Opens a session for the token that a user signs in with. Counts wrong tokens as `authenticate` does. */
  signIn(request: IncomingMessage, token: string): ReturnType<Sessions["open"]>;
  /** The caller that `authenticate` found for this request; undefined if it was not called, or threw. */
  knownCaller(request: IncomingMessage): Caller | undefined;
  /** Throws `not-authorized` unless the caller has one of the roles. An empty list allows every role. */
  checkRole(caller: Caller, roles: readonly Role[]): void;
}

export interface GatekeeperOptions {
  readonly access: Access;
  readonly sessions: Sessions;
  readonly failedTries: FailedTries;
  /** The namespace of callers that need no token. */
  readonly namespace: string;
}

const SAFE_METHODS = ["GET", "HEAD", "OPTIONS"];

export function createGatekeeper(options: GatekeeperOptions): Gatekeeper {
  const { access, sessions, failedTries, namespace } = options;
  const callers = new WeakMap<IncomingMessage, Caller>();

  async function findCaller({ headers, method = "GET", socket }: IncomingMessage): Promise<Caller> {
    const bearer = /^Bearer\b *(.*)$/i.exec(headers.authorization ?? "")?.[1];
    if (bearer !== undefined) {
      const caller = await failedTries.attempt(socket.remoteAddress, bearer, () => access.verify(bearer));
      if (caller !== undefined) return caller;
      throw new NevertwiceError("not-authenticated", "the access token is unknown or was revoked.");
    }
    if (!(await access.isRequired()))
      return { name: "local", roles: ROLES, namespace, scope: "local", seesServer: true };
    const caller = await sessions.findCaller(headers, SAFE_METHODS.includes(method));
    if (caller !== undefined) return caller;
    throw new NevertwiceError(
      "not-authenticated",
      "an access token is required: send `Authorization: Bearer TOKEN` with a token from `nevertwice access create`.",
    );
  }

  return {
    async authenticate(request) {
      const caller = await findCaller(request);
      callers.set(request, caller);
      return caller;
    },

    signIn: ({ socket }, token) =>
      failedTries.attempt(socket.remoteAddress, token, () => sessions.open(token)),

    knownCaller: (request) => callers.get(request),

    checkRole({ roles }, required) {
      if (required.length === 0 || required.some((role) => roles.includes(role))) return;
      throw new NevertwiceError(
        "not-authorized",
        `the access token's role is ${roles.join(", ")}; this needs ${required.join(" or ")}.`,
      );
    },
  };
}
