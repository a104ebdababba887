/** The one way to the server: its own origin, the session's cookie, and the session's header on every change. */

export interface Who {
  readonly name: string;
  readonly roles: readonly string[];
  readonly namespace: string;
}

export interface Session {
  /** Whether anybody has to show a token at all. */
  readonly needed: boolean;
  readonly caller: Who | null;
  readonly csrf: string | null;
}

/** What the server said instead of an answer, or that it said nothing. */
export class Refusal extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: string, status: number, detail: string) {
    super(detail);
    this.code = code;
    this.status = status;
  }
}

type Listener = () => void;

let csrf: string | null = null;
let skewMs = 0;
const onEnded = new Set<Listener>();

/** The server's clock: the times it tells are its own. */
export function serverNow(): number {
  return Date.now() + skewMs;
}

/** Told when the server no longer knows who this is. */
export function whenSessionEnds(listener: Listener): () => void {
  onEnded.add(listener);
  return () => onEnded.delete(listener);
}

export function endSession(): void {
  for (const listener of onEnded) listener();
}

export async function loadSession(): Promise<Session> {
  return remembered(await ask<Session>("GET", "/session"));
}

export async function openSession(token: string): Promise<Session> {
  return remembered(await ask<Session>("POST", "/session", { token }));
}

export async function closeSession(): Promise<Session> {
  return remembered(await ask<Session>("DELETE", "/session"));
}

export function get<T>(
  path: string,
  query: Readonly<Record<string, string | number | undefined>> = {},
): Promise<T> {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return ask<T>("GET", search === "" ? path : `${path}?${search}`);
}

export function post<T>(path: string, body: unknown): Promise<T> {
  return ask<T>("POST", path, body);
}

async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
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
    throw new Refusal("offline", 0, "The server does not answer. It may be stopped, or the network is down.");
  });
  setClock(response.headers.get("date"), sentAt);
  const text = await response.text();
  if (response.ok) return (isJson(response) && text !== "" ? JSON.parse(text) : text) as T;
  throw refusalOf(response, text, path);
}

function refusalOf(response: Response, text: string, path: string): Refusal {
  const problem = (isJson(response) ? JSON.parse(text) : {}) as Readonly<Record<string, unknown>>;
  const code = String(problem.code ?? "internal-error");
  if (response.status === 401 && path !== "/session") endSession();
  return new Refusal(
    code,
    response.status,
    String(problem.detail ?? `The server answered ${response.status}.`),
  );
}

function isJson(response: Response): boolean {
  return /\bjson\b/.test(response.headers.get("content-type") ?? "");
}

function remembered(session: Session): Session {
  ({ csrf } = session);
  return session;
}

/** `Date` counts whole seconds: a smaller difference is none. */
function setClock(date: string | null, sentAt: number): void {
  const told = Date.parse(date ?? "");
  if (Number.isNaN(told)) return;
  const difference = told + 500 - (sentAt + Date.now()) / 2;
  skewMs = Math.abs(difference) < 2_000 ? 0 : difference;
}
