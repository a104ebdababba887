/** A web `Response` held back: read up to the limit, then let go whole, or as what was read and the rest on demand. */
import { Buffer } from "node:buffer";
import type { Exchange, HeaderLine, HttpResponse, Reply } from "./exchange.ts";
import { areAscii, sentLines } from "./head-bytes.ts";
import { headEncodingOf, madeOf } from "./node-server-notes.ts";
import { joined } from "./web-request.ts";

export interface HeldResponse {
  /** What is known of it before its first byte leaves. */
  readonly known: HttpResponse;
  /** What to send. Asked for once. */
  release(): Response;
  /** Nobody will read it: its source is told. */
  discard(): void;
}

type Holding = Pick<Exchange<never>, "maxHeldBytes" | "holds">;

const EMPTY = new Uint8Array();

/** Rejects with what the body's own source fails with: an answer that cannot be made whole is a handler that failed. */
export async function holdBack(
  request: Request,
  response: Response,
  { maxHeldBytes, holds }: Holding,
): Promise<HeldResponse> {
  // A network error has no status of its own; to whoever asked, the service failed.
  const status = response.status === 0 ? 500 : response.status;
  const made = madeOf(response);
  const given = made?.headers ?? ([...response.headers] as HeaderLine[]);
  const isAscii = areAscii(given);
  const headers = isAscii ? given : sentLines(given, headEncodingOf(request, response));
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
  if (response.bodyUsed) throw new TypeError("the handler answered with a body that was read before.");

  const reader = response.body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  while (size <= maxHeldBytes) {
    const { done, value } = await reader.read();
    if (done) {
      const body = joined(chunks, size);
      return {
        known: { status, headers, body },
        // Bytes go out with a head in latin1, whatever the stream would have gone out with.
        release: () => withBytes(body, response, isAscii ? response.headers : headers),
        discard() {},
      };
    }
    // Some servers take streams of text too, though the standard does not.
    const chunk = bytesIn(value);
    chunks.push(chunk);
    size += chunk.byteLength;
  }
  return {
    known: { status, headers, body: undefined },
    release: () => new Response(resumed(chunks, reader), response),
    discard: () => cancel(reader),
  };
}

function withBytes(body: Uint8Array, response: Response, headers: Headers | readonly HeaderLine[]): Response {
  const { status, statusText } = response;
  const init = { status, statusText, headers: headers as Headers | [string, string][] };
  return new Response(body as Uint8Array<ArrayBuffer>, init);
}

/** What was read, then the rest, pulled only as it is asked for. */
function resumed(
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
  // Whatever it says to that, nobody is left to be told.
  source?.cancel().catch(() => {});
}

/** The same response with these lines on top of its own. */
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

export function toResponse({ status, headers, body }: Reply): Response {
  return new Response(bodyOf(status, body), { status, headers: headers as [string, string][] });
}

/** Statuses that have no body, whatever was kept. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

/** As bytes: text would be given a type that the kept answer may not have had. */
export function bodyOf(status: number, body: string | Uint8Array): Uint8Array<ArrayBuffer> | null {
  return WITHOUT_BODY.has(status) || body.length === 0 ? null : bytesIn(body);
}

function bytesIn(body: string | Uint8Array): Uint8Array<ArrayBuffer> {
  return (typeof body === "string" ? Buffer.from(body) : body) as Uint8Array<ArrayBuffer>;
}
