/** A `fetch` with allowed hosts and methods only, also for the targets of redirects. */
import type { EffectGrant } from "./model.ts";

const MAX_REDIRECTS = 20;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** Removed when a redirect leads to another origin. */
const PRIVATE_HEADERS = ["authorization", "cookie", "proxy-authorization"];
const BODY_HEADERS = [
  "content-encoding",
  "content-language",
  "content-length",
  "content-location",
  "content-type",
];

export interface FetchWatch {
  /** Creates the error for a request that is not allowed. */
  readonly refuse: (what: string, fix: string) => Error;
  /** Called before each request, and for each redirect that is followed. */
  readonly onRequest: (host: string, method: string) => void;
}

/** An empty list allows all hosts; without `methods` all methods are allowed. */
export function allowedFetch(
  inner: typeof fetch,
  { allow, methods }: EffectGrant,
  signal: AbortSignal,
  { refuse, onRequest }: FetchWatch,
): typeof fetch {
  const hosts = new Set(allow.map((host) => host.toLowerCase()));
  const isAllowed = (url: URL) => hosts.size === 0 || hosts.has(url.hostname) || hosts.has(url.host);

  function check(url: URL, method: string): void {
    if (!isAllowed(url)) throw refuse(`to ${url.host}`, "add the host to effects.http.allow");
    if (methods !== undefined && !methods.includes(method.toUpperCase()))
      throw refuse(`with ${method}`, "add the method to effects.http.methods");
    onRequest(url.host, method);
  }

  return async (input, init) => {
    const asked = new Request(input, init);
    const own = AbortSignal.any([asked.signal, signal]);
    check(new URL(asked.url), asked.method);
    const isFree = hosts.size === 0 && methods === undefined;
    if (isFree || asked.redirect !== "follow") return inner(new Request(asked, { signal: own }));
    let request = new Request(asked, { redirect: "manual", signal: own });
    // A body can be read only once, so a copy is kept for redirects that repeat it.
    const body = request.body === null ? undefined : await request.clone().arrayBuffer();
    for (let redirects = 0; ; redirects++) {
      const response = await inner(request);
      const location = REDIRECTS.has(response.status) ? response.headers.get("location") : null;
      if (location === null) return response;
      if (redirects === MAX_REDIRECTS) throw new TypeError(`more than ${MAX_REDIRECTS} redirects`);
      const next = redirected(request, response.status, new URL(location, request.url), body, own);
      check(new URL(next.url), next.method);
      await response.body?.cancel();
      request = next;
    }
  };
}

/** The request that follows a redirect. 303 changes the method to GET, and so do 301 and 302 after a POST, by convention. */
function redirected(
  request: Request,
  status: number,
  url: URL,
  body: ArrayBuffer | undefined,
  signal: AbortSignal,
): Request {
  const { method } = request;
  const isPlainGet =
    (status === 303 && method !== "GET" && method !== "HEAD") || (status <= 302 && method === "POST");
  const headers = new Headers(request.headers);
  if (isPlainGet) for (const name of BODY_HEADERS) headers.delete(name);
  if (new URL(request.url).origin !== url.origin) for (const name of PRIVATE_HEADERS) headers.delete(name);
  const keepsBody = !isPlainGet && body !== undefined;
  return new Request(url, {
    method: isPlainGet ? "GET" : method,
    headers,
    redirect: "manual",
    signal,
    ...(keepsBody ? { body } : {}),
  });
}
