/**
 * A request in a form that is the same at every try. A body that can be sent again is converted once to a string or a
 * Blob, which do not change. So neither a reused buffer nor a random form boundary changes the request between tries.
 */
import { encodeForm } from "./form-data.ts";

/** The options of fetch, and the key of the call. */
export interface KeyedRequestInit extends RequestInit {
  /** The key; it overrides the header. `false`: no key, so only idempotent methods are retried. */
  readonly idempotencyKey?: string | false | undefined;
  /** The name of one piece of work. Its key stays in `storage` under this name until there is a final answer. */
  readonly idempotencyName?: string | undefined;
}

export interface OutgoingRequest {
  readonly input: string | URL | Request;
  /** The options for fetch, except headers and signal. */
  readonly init: RequestInit;
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  /** False for a stream, which can be sent only once. */
  readonly isResendable: boolean;
  /** The caller's signal. */
  readonly signal: AbortSignal | undefined;
}

/** Not a byte array: some platforms cannot send its bytes again when they follow a redirect. */
type Resendable = string | Blob;

interface OutgoingBody {
  /** Undefined if there is no body, or if it stays in the Request. */
  readonly body?: RequestInit["body"];
  readonly contentType?: string;
  readonly isResendable: boolean;
}

/** Throws the same errors as fetch for an invalid request. */
export async function prepare(
  input: string | URL | Request,
  keyedInit: KeyedRequestInit,
): Promise<OutgoingRequest> {
  // The options may be a Request. Its members are getters on the prototype, which a spread would not copy.
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
      ? await readRequestBody(request, method)
      : await toOutgoingBody(given);
  if (contentType !== undefined && !headers.has("content-type")) headers.set("content-type", contentType);
  return {
    input,
    init: { ...sentReferrer(request), ...init, ...(body !== undefined && { body }) },
    method,
    url: request?.url ?? String(input),
    headers,
    isResendable,
    signal,
  };
}

/** A digest of method, path and body, which detects a changed request. Undefined for a body that can be read only once. */
export async function digestRequest({
  method,
  url,
  init,
  isResendable,
}: OutgoingRequest): Promise<string | undefined> {
  if (!isResendable) return undefined;
  const body = (init.body ?? "") as Resendable;
  const bytes = await new Blob([`${method} ${pathAndQuery(url)}\n`, body]).arrayBuffer();
  return digestText(new Uint8Array(bytes));
}

async function toOutgoingBody(body: RequestInit["body"] | undefined): Promise<OutgoingBody> {
  if (body === undefined) return { isResendable: true };
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

async function readRequestBody(request: Request, method: string): Promise<OutgoingBody> {
  if (method === "GET" || method === "HEAD") return { isResendable: true };
  if (isStreamed(request)) return { isResendable: false };
  const body = await request.blob();
  // `blob()` consumes a body only if there is one. Then the Request's own body is used up and must be replaced.
  return { isResendable: true, ...(request.bodyUsed && { body }) };
}

/**
 * Whether the body of a Request is a live stream. No property says so, but by the standard, `mode: "no-cors"` is refused
 * for a stream. On platforms that refuse it for text too, or accept it for streams, this is unknown, and the body is read.
 */
function isStreamed(request: Request): boolean {
  const text = new Request("http://localhost/", { method: "POST", body: "text" });
  return !acceptsNoCors(request.clone()) && acceptsNoCors(text);
}

function acceptsNoCors(request: Request): boolean {
  try {
    discard(new Request(request, { method: "POST", mode: "no-cors" }));
    return true;
  } catch {
    discard(request);
    return false;
  }
}

/** Cancels a body that will not be read, which frees its connection. */
export function discard({ body }: Request | Response): void {
  body?.cancel().catch(() => {});
}

/** With options next to a Request, fetch ignores the Request's referrer. So the referrer is passed on. */
function sentReferrer(request: Request | undefined): RequestInit | undefined {
  return request && { referrer: request.referrer, referrerPolicy: request.referrerPolicy };
}

function isRequest(value: object | string): value is Request {
  return typeof (value as Partial<Request>).clone === "function";
}

/** Without the origin: after a restart, the same server may have another one. */
function pathAndQuery(url: string): string {
  const { pathname, search } = new URL(url, "http://localhost/");
  return pathname + search;
}

/**
 * 64 bits and the length: enough to detect an edited form, but no protection against attacks. Unlike SHA-256, it also
 * works outside secure contexts.
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
