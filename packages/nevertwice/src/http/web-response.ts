/**
 * Holds back a web `Response`: reads it up to the limit. A response within the limit is sent whole; of a longer one, the
 * part that was read is sent first, then the rest as the client reads.
 */
import { toUtf8 } from "#platform";
import { concatBytes } from "../core/bytes.ts";
import type { HoldingRules } from "./exchange.ts";
import { areAscii, sentLines } from "./head-bytes.ts";
import { findResponseSource, headEncoding } from "./hono-node-server.ts";
import type { HeaderLine, HttpReply, HttpResponse } from "./http-message.ts";

export interface HeldResponse {
  /** The response as known before its first byte is sent. */
  readonly known: HttpResponse;
  /** The response to send. Call it once. */
  release(): Response;
  /** Cancels the source of a response that is not sent. */
  discard(): void;
}

const EMPTY = new Uint8Array();

/** Rejects if the source of the body fails while it is held back: then the handler has failed. */
export async function holdBack(
  request: Request,
  response: Response,
  { maxHeldBytes, holds }: HoldingRules,
): Promise<HeldResponse> {
  // `Response.error()` has status 0. To the client, the service has failed.
  const status = response.status === 0 ? 500 : response.status;
  const made = findResponseSource(response);
  const given = made?.headers ?? ([...response.headers] as HeaderLine[]);
  const isAscii = areAscii(given);
  const headers = isAscii ? given : sentLines(given, headEncoding(request, response));
  const untouched = (body: Uint8Array | undefined): HeldResponse => ({
    known: { status, headers, body },
    release: () => response,
    discard: () => cancel(response.body),
  });
  if (!holds(status, (name) => headers.find(([line]) => line.toLowerCase() === name)?.[1])) {
    return untouched(undefined);
  }
  if (made !== undefined) {
    const body = bytesIn(made.body ?? "");
    return untouched(body.length > maxHeldBytes ? undefined : body);
  }
  if (response.body === null) return untouched(EMPTY);
  if (response.bodyUsed) throw new TypeError("the handler returned a Response whose body was already read.");

  const reader = response.body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  while (size <= maxHeldBytes) {
    const { done, value } = await reader.read();
    if (done) {
      const body = concatBytes(chunks, size);
      return {
        known: { status, headers, body },
        // A body of bytes is sent with a head in latin1, and `headers` holds the bytes that the stream's head would have had.
        release: () => withBytes(body, response, isAscii ? response.headers : headers),
        discard() {},
      };
    }
    // Some servers accept streams of strings, although the standard does not.
    const chunk = bytesIn(value);
    chunks.push(chunk);
    size += chunk.byteLength;
  }
  return {
    known: { status, headers, body: undefined },
    release: () => new Response(resumeStream(chunks, reader), response),
    discard: () => cancel(reader),
  };
}

function withBytes(body: Uint8Array, response: Response, headers: Headers | readonly HeaderLine[]): Response {
  const { status, statusText } = response;
  const init = { status, statusText, headers: headers as Headers | [string, string][] };
  return new Response(body as Uint8Array<ArrayBuffer>, init);
}

/** First the chunks that were read, then the rest, pulled from the source only on demand. */
function resumeStream(
  chunks: Uint8Array[],
  reader: ReadableStreamDefaultReader<Uint8Array>,
): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const held = chunks.shift();
        if (held !== undefined) return controller.enqueue(held);
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(bytesIn(value));
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

function cancel(source: { cancel(): Promise<void> } | null): void {
  // An error of the source changes nothing: the response is not sent.
  source?.cancel().catch(() => {});
}

/** The response with these header lines added. */
export function withHeaders(response: Response, added: readonly HeaderLine[]): Response {
  if (added.length === 0) return response;
  try {
    for (const [name, value] of added) response.headers.append(name, value);
    return response;
  } catch {
    // The headers of `Response.redirect()` and of fetched responses cannot be changed.
    if (response.status === 0) return response;
    const changeable = new Response(response.body, response);
    for (const [name, value] of added) changeable.headers.append(name, value);
    return changeable;
  }
}

export function toResponse({ status, headers, body }: HttpReply): Response {
  return new Response(toBody(status, body), { status, headers: headers as [string, string][] });
}

/** Responses with these statuses have no body. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

export function hasBody(status: number, body: string | Uint8Array): boolean {
  return !WITHOUT_BODY.has(status) && body.length > 0;
}

/** Always bytes: for a string, the platform would set a Content-Type that the kept response may not have. */
export function toBody(status: number, body: string | Uint8Array): Uint8Array<ArrayBuffer> | null {
  return hasBody(status, body) ? bytesIn(body) : null;
}

function bytesIn(body: string | Uint8Array): Uint8Array<ArrayBuffer> {
  return (typeof body === "string" ? toUtf8(body) : body) as Uint8Array<ArrayBuffer>;
}
