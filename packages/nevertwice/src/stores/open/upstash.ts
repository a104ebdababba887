/** Creates the client of an Upstash store from its URL, or from the environment variables that Upstash's console names. */
import type { UpstashClient } from "../upstash.ts";
import { importDriver } from "./driver.ts";
import { type StoreUrl, serverUrl, urlError } from "./store-url.ts";

interface UpstashModule {
  readonly Redis: new (config: object) => UpstashClient;
}

/** `fetch` has no time limit of its own. This one includes the client's retries; a guard waits as long by default. */
const REQUEST_MS = 5_000;

export async function upstashClient(url: StoreUrl): Promise<UpstashClient> {
  const { Redis } = await importDriver<UpstashModule>("@upstash/redis", "@upstash/redis", url.shown);
  return new Redis({
    ...readCredentials(url),
    automaticDeserialization: false,
    signal: () => AbortSignal.timeout(REQUEST_MS),
  });
}

/** `upstash:` alone means the environment. The token may be the user or the password of the URL. */
function readCredentials(url: StoreUrl): { readonly url: string; readonly token: string } {
  const { UPSTASH_REDIS_REST_URL: address, UPSTASH_REDIS_REST_TOKEN: secret } = process.env;
  if (/^upstash:$/.test(url.rest())) {
    if (address && secret) return { url: address, token: secret };
    throw urlError(url, "needs UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN in the environment");
  }
  const { protocol, host, pathname, username, password } = new URL(serverUrl(url));
  // A token with an unescaped slash ends up here, and its beginning as the host.
  if (host === "" || pathname.length > 1)
    throw urlError(url, "is malformed; expected upstash://TOKEN@host, and / in the token as %2F");
  const token = decodeURIComponent(password || username) || secret;
  if (!token)
    throw urlError(url, "has no token; write upstash://TOKEN@host, or set UPSTASH_REDIS_REST_TOKEN");
  return { url: `${protocol === "upstash+http:" ? "http" : "https"}://${host}`, token };
}
