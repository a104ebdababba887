/** A `fetch` that reaches only allowed hosts, including the targets of redirects. */

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

/** An empty list allows all hosts. `refuse` creates the error for a host that is not in the list. */
export function allowedFetch(
  inner: typeof fetch,
  allow: readonly string[],
  signal: AbortSignal,
  refuse: (host: string) => Error,
): typeof fetch {
  const hosts = new Set(allow.map((host) => host.toLowerCase()));
  const isAllowed = (url: URL) => hosts.size === 0 || hosts.has(url.hostname) || hosts.has(url.host);

  function checkHost(url: URL): void {
    if (!isAllowed(url)) throw refuse(url.host);
  }

  return async (input, init) => {
    const asked = new Request(input, init);
    const own = AbortSignal.any([asked.signal, signal]);
    checkHost(new URL(asked.url));
    if (hosts.size === 0 || asked.redirect !== "follow") return inner(new Request(asked, { signal: own }));
    let request = new Request(asked, { redirect: "manual", signal: own });
    // A body can be read only once, so a copy is kept for redirects that repeat it.
    const body = request.body === null ? undefined : await request.clone().arrayBuffer();
    for (let redirects = 0; ; redirects++) {
      const response = await inner(request);
      const location = REDIRECTS.has(response.status) ? response.headers.get("location") : null;
      if (location === null) return response;
      if (redirects === MAX_REDIRECTS) throw new TypeError(`more than ${MAX_REDIRECTS} redirects`);
      const next = new URL(location, request.url);
      checkHost(next);
      await response.body?.cancel();
      request = redirected(request, response.status, next, body, own);
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
