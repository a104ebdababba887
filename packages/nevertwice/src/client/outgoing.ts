/**
 * A request as it is sent: the same at every try. What can be sent again is turned once into text or a Blob, which do
 * not change: neither a caller who changes its buffer nor a boundary drawn at random makes another request of it.
 */
import { encodeForm } from "./form-data.ts";

/** What fetch takes, and which key the call has. */
export interface KeyedRequestInit extends RequestInit {
  /** The key itself; it wins over the header. `false`: none, so that only methods that need none are retried. */
  readonly idempotencyKey?: string | false | undefined;
  /** The name of one piece of work, under which its key is kept in `storage` until a final answer. */
  readonly idempotencyName?: string | undefined;
}

export interface Outgoing {
  readonly input: string | URL | Request;
  /** For fetch, beside headers and signal. */
  readonly init: RequestInit;
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  /** A stream can be sent once. */
  readonly isResendable: boolean;
  /** The caller's. */
  readonly signal: AbortSignal | undefined;
}

/** Not bytes: of those, some platforms have nothing left when they follow a redirect. */
type Resendable = string | Blob;

interface Payload {
  /** Undefined if there is none, or if it stays where it is: in the Request. */
  readonly body?: RequestInit["body"];
  readonly contentType?: string;
  readonly isResendable: boolean;
}

/** What fetch itself would throw for a request that cannot be made, this throws too. */
export async function prepare(input: string | URL | Request, keyedInit: KeyedRequestInit): Promise<Outgoing> {
  // A Request in the place of the options: its members are getters, which no copy of it would have.
  if (isRequest(keyedInit)) return prepare(new Request(input, keyedInit), {});
  const { idempotencyKey: _key, idempotencyName: _name, ...init } = keyedInit;
  const request = isRequest(input) ? input : undefined;
  const method = (init.method ?? request?.method ?? "GET").toUpperCase();
  const headers = new Headers(init.headers ?? request?.headers);
  const signal = (init.signal === undefined ? request?.signal : init.signal) ?? undefined;
  signal?.throwIfAborted();
  const given = init.body ?? undefined;
  const { body, contentType, isResendable } =
    given === undefined && request !== undefined
      ? await payloadOfRequest(request, method)
      : await payloadOf(given);
  if (contentType !== undefined && !headers.has("content-type")) headers.set("content-type", contentType);
  return {
    input,
    init: { ...referrerOf(request), ...init, ...(body === undefined ? {} : { body }) },
    method,
    url: request?.url ?? String(input),
    headers,
    isResendable,
    signal,
  };
}

/** Tells an edited request from the same one: method, path and body. Undefined for what can be read only once. */
export async function digestOf({ method, url, init, isResendable }: Outgoing): Promise<string | undefined> {
  if (!isResendable) return undefined;
  const body = (init.body ?? "") as Resendable;
  const bytes = await new Blob([`${method} ${pathOf(url)}\n`, body]).arrayBuffer();
  return digestText(new Uint8Array(bytes));
}

async function payloadOf(body: RequestInit["body"]): Promise<Payload> {
  if (body === undefined || body === null) return { isResendable: true };
  if (body instanceof FormData) return { ...(await encodeForm(body)), isResendable: true };
  if (typeof body === "string" || body instanceof Blob) return { body, isResendable: true };
  if (body instanceof URLSearchParams) {
    const contentType = "application/x-www-form-urlencoded;charset=UTF-8";
    return { body: String(body), contentType, isResendable: true };
  }
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body))
    return { body: new Blob([body as ArrayBuffer]), isResendable: true };
  return { body, isResendable: false };
}

async function payloadOfRequest(request: Request, method: string): Promise<Payload> {
  if (method === "GET" || method === "HEAD") return { isResendable: true };
  if (isStreamed(request)) return { isResendable: false };
  const body = await request.blob();
  // It is used only if there was one; then it must be replaced, even by nothing.
  return { isResendable: true, ...(request.bodyUsed ? { body } : {}) };
}

/**
 * Whether the body of a Request is a live stream. Nothing says so, but a Request without CORS refuses one, by the
 * standard. Where even a body of text is refused, or a stream is not, nobody can tell: then the body is read.
 */
function isStreamed(request: Request): boolean {
  const text = new Request("http://localhost/", { method: "POST", body: "text" });
  return !mayLackCors(request.clone()) && mayLackCors(text);
}

function mayLackCors(request: Request): boolean {
  try {
    discard(new Request(request, { method: "POST", mode: "no-cors" }));
    return true;
  } catch {
    discard(request);
    return false;
  }
}

/** Nobody will read it: what holds the body may let it go. */
export function discard({ body }: Request | Response): void {
  body?.cancel().catch(() => {});
}

/** Options beside a Request make fetch forget its referrer. */
function referrerOf(request: Request | undefined): RequestInit {
  const { referrer, referrerPolicy } = request ?? {};
  return {
    ...(referrer === undefined || referrer === "about:client" ? {} : { referrer }),
    ...(referrerPolicy === undefined || referrerPolicy === "" ? {} : { referrerPolicy }),
  };
}

function isRequest(value: object | string): value is Request {
  return typeof value === "object" && "url" in value && "headers" in value && "clone" in value;
}

/** Without the origin: the same request may find its server under another one after a restart. */
function pathOf(url: string): string {
  const { pathname, search } = new URL(url, "http://localhost/");
  return pathname + search;
}

/**
 * 64 bits and the length: enough to tell an edited form from the same one. It protects from nothing else, and unlike
 * SHA-256 it is there outside secure contexts too.
 */
function digestText(bytes: Uint8Array): string {
  let first = 0x811c9dc5;
  let second = 0x9747b28c;
  for (const byte of bytes) {
    first = Math.imul(first ^ byte, 0x01000193);
    second = Math.imul(second ^ byte, 0x5bd1e995);
    second ^= second >>> 15;
  }
  return [first >>> 0, second >>> 0, bytes.byteLength].map((number) => number.toString(36)).join("-");
}
