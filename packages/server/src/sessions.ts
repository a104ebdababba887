/**
 * The dashboard's sessions: a cookie that no other site's request carries, and a header that none can guess. The store
 * has the secret that signs them and a mark for each that was closed, the same for all copies of the server.
 */
import { createHmac, randomBytes, randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { createGuard, NevertwiceError, type Store } from "nevertwice";
import { type Access, CACHE_MS, type Caller, SERVER_NAMESPACE, sameText } from "./access.ts";
import { recordedValue } from "./recorded-value.ts";

export interface Session {
  readonly caller: Caller;
  /** What `X-Nevertwice-Csrf` must say with every request that changes something. */
  readonly csrf: string;
}

export interface Sessions {
  /** Answers the `Set-Cookie` of a new session; undefined for a token that is none. */
  open(token: string): Promise<{ readonly cookie: string; readonly session: Session } | undefined>;
  /**
   * Ends the session of the cookie, here at once and on other copies of the server within `CACHE_MS`. Answers the
   * `Set-Cookie` that removes it from the browser. Throws `unavailable` if the store cannot keep that it ended.
   */
  close(headers: IncomingHttpHeaders): Promise<string>;
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
const CLOSED = "session-closed";
const MOST_CACHED = 10_000;

/** What the cookie says, signed. */
interface Body {
  readonly id: string;
  readonly tokenId: string;
  readonly until: number;
}

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
  const closed = new Map<string, { readonly is: boolean; readonly until: number }>();
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

  /** Undefined for a cookie that is not ours, or is past its time. */
  async function bodyIn(
    headers: IncomingHttpHeaders,
  ): Promise<(Body & { readonly text: string }) | undefined> {
    const [text, signature] = cookieIn(headers.cookie ?? "", name)?.split(".") ?? [];
    if (text === undefined || signature === undefined) return undefined;
    if (!sameText(signature, await sign(text, "session"))) return undefined;
    const body = JSON.parse(Buffer.from(text, "base64url").toString()) as Body;
    return body.until > now() ? { ...body, text } : undefined;
  }

  async function isClosed({ id }: Body): Promise<boolean> {
    const cached = closed.get(id);
    if (cached !== undefined && cached.until > now()) return cached.is;
    // Counted from before the store was asked: a slow answer is not believed for longer.
    const until = now() + CACHE_MS;
    const is = (await guard.read({ operation: CLOSED, key: id }))?.state === "completed";
    keep(id, { is, until });
    return is;
  }

  function keep(id: string, answer: { readonly is: boolean; readonly until: number }): void {
    if (closed.size >= MOST_CACHED) closed.clear();
    closed.set(id, answer);
  }

  async function sessionOf(headers: IncomingHttpHeaders): Promise<Session | undefined> {
    const body = await bodyIn(headers);
    if (body === undefined || (await isClosed(body))) return undefined;
    // The token is asked about again: a session ends when its token is revoked.
    const caller = await access.recall(body.tokenId);
    return caller && { caller, csrf: await sign(body.text, "csrf") };
  }

  function cookieOf(value: string, maxAge: number): string {
    const secure = isSecure ? "; Secure" : "";
    return `${name}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAge}${secure}`;
  }

  return {
    sessionOf,
    async open(token) {
      const caller = await access.verify(token);
      if (caller?.tokenId === undefined) return undefined;
      const body: Body = { id: randomUUID(), tokenId: caller.tokenId, until: now() + LASTS_MS };
      const text = Buffer.from(JSON.stringify(body)).toString("base64url");
      const value = `${text}.${await sign(text, "session")}`;
      return {
        cookie: cookieOf(value, LASTS_MS / 1_000),
        session: { caller, csrf: await sign(text, "csrf") },
      };
    },

    async close(headers) {
      const body = await bodyIn(headers);
      if (body !== undefined) {
        const { id, until } = body;
        // After that time the cookie has expired anyway.
        const retentionMs = Math.max(1, until - now());
        await guard.run({ operation: CLOSED, key: id, retentionMs }, () => true);
        keep(id, { is: true, until });
      }
      return cookieOf("", 0);
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
