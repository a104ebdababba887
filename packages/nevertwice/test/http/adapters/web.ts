/** What the harnesses of frameworks with web-standard Request and Response share. */
import type {
  HandledRequest,
  ReceivedResponse,
  ScriptedAnswer,
  SentRequest,
} from "../../../src/testing/adapter-cases.ts";

type HeaderLine = readonly [name: string, value: string];

/** The request as a server creates it. */
export function toRequest({ method, target, headers, body, signal }: SentRequest): Request {
  return new Request(`http://localhost${target}`, {
    method,
    headers: headers as [string, string][],
    signal,
    duplex: "half",
    body: body === undefined || body instanceof Uint8Array ? (body ?? null) : toStream(body, signal),
  } as RequestInit);
}

/** A stream that is read on demand, and fails when its sender disconnects. */
function toStream(chunks: AsyncIterable<Uint8Array>, signal: AbortSignal): ReadableStream<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]();
  return new ReadableStream({
    start(controller) {
      signal.addEventListener("abort", () => controller.error(new Error("the client went away")));
    },
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (signal.aborted) return;
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}

export function seenBy(request: Request, attempt: HandledRequest["attempt"]): HandledRequest {
  return { method: request.method, stream: () => request.body ?? emptyBody(), attempt };
}

async function* emptyBody(): AsyncGenerator<Uint8Array> {}

/** The scripted answer, as a handler of such a framework returns it. */
export function toResponse({ status, headers, body }: ScriptedAnswer): Response {
  const init = { status, headers: headers as [string, string][] };
  switch (body.kind) {
    case "json":
      return Response.json(body.value, init);
    case "text":
      return new Response(body.text, init);
    case "bytes":
      return new Response(body.bytes as Uint8Array<ArrayBuffer>, init);
    case "empty":
      return new Response(null, init);
    case "stream":
    case "written":
      return new Response(ReadableStream.from(body.chunks) as ReadableStream<Uint8Array>, init);
  }
}

export function fromResponse(response: Response): ReceivedResponse {
  return {
    status: response.status,
    headers: [...response.headers] as HeaderLine[],
    body: response.body ?? emptyBody(),
  };
}
