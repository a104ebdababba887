/**
 * The sessions of the dashboard: a signed cookie that browsers do not send with requests of other sites, and a CSRF
 * header. The store keeps the signing secret and a mark for each closed session, so that all servers agree.
 */
import { createHmac, randomBytes, randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { NevertwiceError, type Store } from "nevertwice";
import { type Access, CACHE_MS, type Caller, sameText } from "./access.ts";
import { recordedValue } from "./recorded-value.ts";
import { createServerGuard, SERVER_NAMESPACE } from "./server-guard.ts";

export interface Session {
  readonly caller: Caller;
  /** The value of `X-Nevertwice-Csrf` that every request with a change must send. */
  readonly csrf: string;
}

export interface Sessions {
  /** Returns the `Set-Cookie` header of a new session; undefined for an invalid token. */
  open(token: string): Promise<{ readonly cookie: string; readonly session: Session } | undefined>;
  /**
   * Ends the session of the cookie: immediately on this server, within `CACHE_MS` on others. Returns the `Set-Cookie`
   * header that removes it from the browser. Throws `unavailable` if the store cannot record that it ended.
   */
  close(headers: IncomingHttpHeaders): Promise<string>;
  find(headers: IncomingHttpHeaders): Promise<Session | undefined>;
  /** The caller of the session. Throws `not-authorized` if the request is not safe and its CSRF header is wrong. */
  findCaller(headers: IncomingHttpHeaders, isSafe: boolean): Promise<Caller | undefined>;
  /** Waits up to `drainMs` for writes that the store has not confirmed, then stops. The sessions stay open. */
  end(): Promise<void>;
}

const SECRET = { operation: "session-secret", key: "1" };
/** 32 bytes in base64url. */
const SECRET_TEXT = /^[A-Za-z0-9_-]{43}$/;
const COOKIE = "nevertwice_session";
/** Browsers accept a cookie with this prefix only over TLS and from this exact host, so no other subdomain can set it. */
const HOST_PREFIX = "__Host-";
const CSRF_HEADER = "x-nevertwice-csrf";
const LASTS_MS = 12 * 3_600_000;
const CLOSED = "session-closed";
const MAX_CACHED = 10_000;

/** The signed content of the cookie. */
interface SessionCookie {
  readonly id: string;
  readonly tokenId: string;
  readonly until: number;
}

export function createSessions(options: {
  readonly store: Store;
  readonly access: Access;
  readonly isSecure: boolean;
  readonly drainMs?: number;
  /** The wall clock: a cookie is read by all copies of the server. */
  readonly now?: () => number;
  /** Counts what passes, however the wall clock is set. */
  readonly passed?: () => number;
}): Sessions {
  const { store, access, isSecure, drainMs, now = Date.now, passed = () => performance.now() } = options;
  const guard = createServerGuard(store, drainMs);
  const name = isSecure ? `${HOST_PREFIX}${COOKIE}` : COOKIE;
  const closed = new Map<string, { readonly is: boolean; readonly until: number }>();
  let secret: Promise<string> | undefined;

  /** The first server that needs the secret makes it; all others read the same one from the store. */
  function sharedSecret(): Promise<string> {
    const make = () => randomBytes(32).toString("base64url");
    secret ??= recordedValue(guard, SECRET, make)
      .then(checkSecret)
      .catch((error: unknown) => {
        secret = undefined;
        throw error;
      });
    return secret;
  }

  async function sign(text: string, purpose: string): Promise<string> {
    return createHmac("sha256", await sharedSecret())
      .update(`${purpose}\n${text}`)
      .digest("base64url");
  }

  /** Undefined if the signature is wrong or the session has expired. */
  async function readCookie(
    headers: IncomingHttpHeaders,
  ): Promise<(SessionCookie & { readonly text: string }) | undefined> {
    const [text, signature] = cookieValue(headers.cookie ?? "", name)?.split(".") ?? [];
    if (text === undefined || signature === undefined) return undefined;
    if (!sameText(signature, await sign(text, "session"))) return undefined;
    const body = JSON.parse(Buffer.from(text, "base64url").toString()) as SessionCookie;
    return body.until > now() ? { ...body, text } : undefined;
  }

  async function isClosed({ id }: SessionCookie): Promise<boolean> {
    const cached = closed.get(id);
    if (cached !== undefined && cached.until > passed()) return cached.is;
    // The cache time starts before the read, so that a slow read does not extend it.
    const until = passed() + CACHE_MS;
    const is = (await guard.read({ operation: CLOSED, key: id }))?.state === "completed";
    keep(id, { is, until });
    return is;
  }

  function keep(id: string, answer: { readonly is: boolean; readonly until: number }): void {
    if (closed.size >= MAX_CACHED) closed.clear();
    closed.set(id, answer);
  }

  async function findSession(headers: IncomingHttpHeaders): Promise<Session | undefined> {
    const body = await readCookie(headers);
    if (body === undefined || (await isClosed(body))) return undefined;
    // The token is looked up again, because revoking it ends the session.
    const caller = await access.recall(body.tokenId);
    return caller && { caller, csrf: await sign(body.text, "csrf") };
  }

  function cookieHeader(value: string, maxAge: number): string {
    const secure = isSecure ? "; Secure" : "";
    return `${name}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAge}${secure}`;
  }

  return {
    async end() {
      await guard.close();
    },

    find: findSession,
    async open(token) {
      const caller = await access.verify(token);
      if (caller?.tokenId === undefined) return undefined;
      const body: SessionCookie = { id: randomUUID(), tokenId: caller.tokenId, until: now() + LASTS_MS };
      const text = Buffer.from(JSON.stringify(body)).toString("base64url");
      const value = `${text}.${await sign(text, "session")}`;
      return {
        cookie: cookieHeader(value, LASTS_MS / 1_000),
        session: { caller, csrf: await sign(text, "csrf") },
      };
    },

    async close(headers) {
      const body = await readCookie(headers);
      if (body !== undefined) {
        const { id, until } = body;
        // After this time the cookie has expired anyway.
        const retentionMs = Math.max(1, until - now());
        await guard.run({ operation: CLOSED, key: id, retentionMs }, () => true);
        keep(id, { is: true, until: Number.POSITIVE_INFINITY });
      }
      return cookieHeader("", 0);
    },

    async findCaller(headers, isSafe) {
      const session = await findSession(headers);
      if (session === undefined || isSafe) return session?.caller;
      const given = headers[CSRF_HEADER];
      if (typeof given === "string" && sameText(given, session.csrf)) return session.caller;
      throw new NevertwiceError(
        "not-authorized",
        "the header X-Nevertwice-Csrf is missing or wrong; the dashboard sends it with every change.",
      );
    },
  };
}

/** Throws `store-unsafe` for a damaged secret: with an empty one, for example, anyone could sign a session. */
function checkSecret(secret: unknown): string {
  if (typeof secret === "string" && SECRET_TEXT.test(secret)) return secret;
  throw new NevertwiceError(
    "store-unsafe",
    `the secret of sessions in the store is damaged; delete its record (namespace ${SERVER_NAMESPACE}, operation ${SECRET.operation}).`,
  );
}

function cookieValue(header: string, name: string): string | undefined {
  const parts = header.split(";").map((part) => part.trim());
  return parts.find((part) => part.startsWith(`${name}=`))?.slice(name.length + 1);
}
