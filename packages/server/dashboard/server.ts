/** All requests of the dashboard: to its own origin, with the cookie of the session, and its CSRF header on every change. */
import type { SessionJson } from "../src/api/api-json.ts";

/** A problem that the server returned, or `offline` if it did not answer. */
export class ApiError extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: string, status: number, detail: string) {
    super(detail);
    this.code = code;
    this.status = status;
  }
}

let csrf: string | null = null;
let skewMs = 0;
const sessionEndListeners = new Set<() => void>();

/** The time by the server's clock, which all times in its answers use. */
export function serverNow(): number {
  return Date.now() + skewMs;
}

/** Calls the listener when the server no longer accepts the session. */
export function whenSessionEnds(listener: () => void): () => void {
  sessionEndListeners.add(listener);
  return () => sessionEndListeners.delete(listener);
}

export function endSession(): void {
  for (const listener of sessionEndListeners) listener();
}

export async function loadSession(): Promise<SessionJson> {
  return rememberCsrf(await request<SessionJson>("GET", "/session"));
}

export async function openSession(token: string): Promise<SessionJson> {
  return rememberCsrf(await request<SessionJson>("POST", "/session", { token }));
}

export async function closeSession(): Promise<SessionJson> {
  return rememberCsrf(await request<SessionJson>("DELETE", "/session"));
}

export function get<T>(
  path: string,
  query: Readonly<Record<string, string | number | undefined>> = {},
): Promise<T> {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return request<T>("GET", search === "" ? path : `${path}?${search}`);
}

export function post<T>(path: string, body: unknown): Promise<T> {
  return request<T>("POST", path, body);
}

async function request<T>(method: string, path: string, body?: unknown): Promise<T> {
  const sentAt = Date.now();
  const response = await fetch(path, {
    method,
    credentials: "same-origin",
    headers: {
      accept: "application/json",
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(csrf !== null && method !== "GET" && { "x-nevertwice-csrf": csrf }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  }).catch(() => {
    throw new ApiError(
      "offline",
      0,
      "The server does not answer. It may be stopped, or the network may be down.",
    );
  });
  measureClockSkew(response.headers.get("date"), sentAt);
  const text = await response.text();
  if (response.ok) return (isJson(response) && text !== "" ? JSON.parse(text) : text) as T;
  throw toApiError(response, text, path);
}

function toApiError(response: Response, text: string, path: string): ApiError {
  const problem = (isJson(response) ? JSON.parse(text) : {}) as Readonly<Record<string, unknown>>;
  const code = String(problem.code ?? "internal-error");
  if (response.status === 401 && path !== "/session") endSession();
  return new ApiError(
    code,
    response.status,
    String(problem.detail ?? `The server answered ${response.status}.`),
  );
}

function isJson(response: Response): boolean {
  return /\bjson\b/.test(response.headers.get("content-type") ?? "");
}

function rememberCsrf(session: SessionJson): SessionJson {
  ({ csrf } = session);
  return session;
}

/** The `Date` header has whole seconds only, so a difference below two seconds is ignored. */
function measureClockSkew(date: string | null, sentAt: number): void {
  const serverTime = Date.parse(date ?? "");
  if (Number.isNaN(serverTime)) return;
  const difference = serverTime + 500 - (sentAt + Date.now()) / 2;
  skewMs = Math.abs(difference) < 2_000 ? 0 : difference;
}
