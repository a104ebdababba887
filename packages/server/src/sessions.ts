/**
 * The dashboard's sessions: a cookie that no other site's request carries, and a header that none can guess. Nothing of
 * them is kept here; the secret that signs them is in the store, the same for all copies of the server.
 */
import { createHmac, randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { createGuard, NevertwiceError, type Store } from "nevertwice";
import { type Access, type Caller, SERVER_NAMESPACE, sameText } from "./access.ts";
import { recordedValue } from "./recorded-value.ts";

export interface Session {
  readonly caller: Caller;
  /** What `X-Nevertwice-Csrf` must say with every request that changes something. */
  readonly csrf: string;
}

export interface Sessions {
  /** Answers the `Set-Cookie` of a new session; undefined for a token that is none. */
  open(token: string): Promise<{ readonly cookie: string; readonly session: Session } | undefined>;
  /** The cookie that ends one. */
  readonly closing: string;
  sessionOf(headers: IncomingHttpHeaders): Promise<Session | undefined>;
  /** Of a request that changes something, only if its header fits. */
  callerOf(headers: IncomingHttpHeaders, isSafe: boolean): Promise<Caller | undefined>;
}

const SECRET = { operation: "session-secret", key: "1" };
const COOKIE = "nevertwice_session";
/** A browser takes a cookie with this prefix from this very host alone, over TLS: no neighbour can set one. */
const HOST_PREFIX = "__Host-";
const CSRF_HEADER = "x-nevertwice-csrf";
const LASTS_MS = 12 * 3_600_000;
const FOR_EVER_MS = 3_155_760_000_000;

export function createSessions(options: {
  readonly store: Store;
  readonly access: Access;
  readonly isSecure: boolean;
  readonly now?: () => number;
}): Sessions {
  const { store, access, isSecure, now = Date.now } = options;
  const guard = createGuard({
    store,
    namespace: SERVER_NAMESPACE,
    retentionMs: FOR_EVER_MS,
    purgeEveryMs: 0,
  });
  const name = isSecure ? `${HOST_PREFIX}${COOKIE}` : COOKIE;
  let secret: Promise<string> | undefined;

  /** The first server that asks makes it; all others are answered with it. */
  function secretOf(): Promise<string> {
    const make = () => randomBytes(32).toString("base64url");
    secret ??= recordedValue(guard, SECRET, make).catch((error: unknown) => {
      secret = undefined;
      throw error;
    });
    return secret;
  }

  async function sign(text: string, purpose: string): Promise<string> {
    return createHmac("sha256", await secretOf())
      .update(`${purpose}\n${text}`)
      .digest("base64url");
  }

  async function sessionOf(headers: IncomingHttpHeaders): Promise<Session | undefined> {
    const cookie = cookieIn(headers.cookie ?? "", name);
    const [body, signature] = cookie?.split(".") ?? [];
    if (body === undefined || signature === undefined) return undefined;
    if (!sameText(signature, await sign(body, "session"))) return undefined;
    const { tokenId, until } = JSON.parse(Buffer.from(body, "base64url").toString()) as {
      readonly tokenId: string;
      readonly until: number;
    };
    // The token is asked about again: a session ends when its token is revoked.
    const caller = until > now() ? await access.recall(tokenId) : undefined;
    return caller && { caller, csrf: await sign(body, "csrf") };
  }

  function cookieOf(value: string, maxAge: number): string {
    const secure = isSecure ? "; Secure" : "";
    return `${name}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAge}${secure}`;
  }

  return {
    sessionOf,
    closing: cookieOf("", 0),

    async open(token) {
      const caller = await access.verify(token);
      if (caller?.tokenId === undefined) return undefined;
      const { tokenId } = caller;
      const body = Buffer.from(JSON.stringify({ tokenId, until: now() + LASTS_MS })).toString("base64url");
      const value = `${body}.${await sign(body, "session")}`;
      return {
        cookie: cookieOf(value, LASTS_MS / 1_000),
        session: { caller, csrf: await sign(body, "csrf") },
      };
    },

    async callerOf(headers, isSafe) {
      const session = await sessionOf(headers);
      if (session === undefined || isSafe) return session?.caller;
      const given = headers[CSRF_HEADER];
      if (typeof given === "string" && sameText(given, session.csrf)) return session.caller;
      throw new NevertwiceError(
        "not-authorized",
        "the request lacks the header that the dashboard sends with changes.",
      );
    },
  };
}

function cookieIn(header: string, name: string): string | undefined {
  const parts = header.split(";").map((part) => part.trim());
  return parts.find((part) => part.startsWith(`${name}=`))?.slice(name.length + 1);
}
