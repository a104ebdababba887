/** The adapter for `Request → Response` functions, broken on purpose. Each fault names the cases that must catch it. */
import { attemptOf, withIdempotency } from "../../src/http/fetch.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import type { AdapterHarness, AdapterSubject } from "../../src/testing/adapter-cases.ts";
import { deferred } from "../deferred.ts";
import { fetchHarness } from "../http/adapters/fetch.ts";
import { fromResponse, seenBy, toRequest, toResponse } from "../http/adapters/web.ts";
import { REPLAYED } from "../http/replayed-header.ts";

type Handler = (request: Request) => Promise<Response>;

/** Wraps a handler with a correct or a broken layer. */
interface Layer {
  before(handler: Handler, options?: Partial<HttpOptions<Request>>): Handler;
}

interface Fault {
  readonly subject: AdapterSubject;
  readonly caught: readonly string[];
  broken(layer: Layer, handler: Handler): Handler;
}

const KEY = "idempotency-key";
const isReplay = (response: Response): boolean => response.headers.has(REPLAYED);

/** Changes the layer's answer. */
const changed =
  (change: (response: Response) => Promise<Response> | Response): Fault["broken"] =>
  ({ before }, handler) => {
    const right = before(handler);
    return async (request) => change(await right(request));
  };

/** Changes how the layer runs the handler. */
const handledBy =
  (wrong: (handler: Handler) => Handler): Fault["broken"] =>
  ({ before }, handler) =>
    before(wrong(handler));

/** Changes the request that the layer sees. */
const shown =
  (change: (request: Request) => Promise<Request> | Request): Fault["broken"] =>
  ({ before }, handler) => {
    const right = before(handler);
    return async (request) => right(await change(request));
  };

function withHeaders(response: Response, change: (headers: Headers) => void): Response {
  const changeable = new Response(response.body, response);
  change(changeable.headers);
  return changeable;
}

/** The layer's answer, and the handler's own answer when it is known. */
function watched(
  { before }: Layer,
  handler: Handler,
): (request: Request) => [Promise<Response>, Promise<Response>] {
  return (request) => {
    const { promise: own, resolve: tell } = deferred<Response>();
    const right = before(async (handled) => {
      const response = await handler(handled);
      tell(response.clone());
      return response;
    });
    return [right(request), own];
  };
}

async function readSoFar(request: Request): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of request.body ?? []) chunks.push(chunk as Uint8Array);
  } catch {
    // The client has disconnected, and this adapter ignores that.
  }
  return Buffer.concat(chunks);
}

export const BROKEN_ADAPTERS = {
  "sends an answer before the store has answered": {
    subject: "first-answer",
    caught: ["sends no byte before the store has answered"],
    broken(layer, handler) {
      const watch = watched(layer, handler);
      return (request) => Promise.race(watch(request));
    },
  },
  "sends one cookie of many": {
    subject: "first-answer",
    caught: ["an answer that sets many cookies is sent as the bare application sends it"],
    broken: changed((response) =>
      withHeaders(response, (headers) => {
        const [cookie] = headers.getSetCookie();
        if (cookie !== undefined) headers.set("set-cookie", cookie);
      }),
    ),
  },
  "converts bodies to text": {
    subject: "first-answer",
    caught: ["a binary answer of every byte value is sent as the bare application sends it"],
    broken: changed(async (response) =>
      response.body === null ? response : new Response(await response.text(), response),
    ),
  },
  "passes no attempt to the handler": {
    subject: "first-answer",
    caught: ["the handler gets its attempt, with a fence and derived keys"],
    broken: handledBy((handler) => (request) => handler(new Request(request))),
  },
  "does not mark its replays": {
    subject: "replay",
    caught: ["an empty 200 is replayed unchanged", "a 204 is replayed unchanged"],
    broken: changed((response) => withHeaders(response, (headers) => headers.delete(REPLAYED))),
  },
  "replays without the Location": {
    subject: "replay",
    caught: ["a 303 with a Location is replayed unchanged"],
    broken: changed((response) =>
      isReplay(response) ? withHeaders(response, (headers) => headers.delete("location")) : response,
    ),
  },
  "runs the handler for replays too": {
    subject: "replay",
    caught: ["a JSON answer with a Location, an ETag and two Link lines is replayed unchanged"],
    broken({ before }, handler) {
      const right = before(handler);
      return async (request) => {
        const copy = request.clone();
        const response = await right(request);
        if (isReplay(response)) await handler(copy);
        return response;
      };
    },
  },
  "replays the cookies of an earlier answer": {
    subject: "replay",
    caught: ["an answer that sets many cookies is replayed unchanged"],
    broken({ before }, handler) {
      let cookies: string[] = [];
      const right = before(handler);
      return async (request) => {
        const response = await right(request);
        if (isReplay(response))
          return withHeaders(response, (headers) => {
            for (const cookie of cookies) headers.append("set-cookie", cookie);
          });
        cookies = response.headers.getSetCookie();
        return response;
      };
    },
  },
  "hides Accept-Encoding from the layer": {
    subject: "coding",
    caught: ["a compressed answer is unpacked for a client that sends Accept-Encoding: identity"],
    broken: shown((request) => {
      request.headers.delete("accept-encoding");
      return request;
    }),
  },
  "reads a stream to its end": {
    subject: "stream",
    caught: [
      "while an answer is held back, its producer is paused",
      "an event stream of the framework arrives while it is produced",
    ],
    broken: handledBy((handler) => async (request) => {
      const response = await handler(request);
      return response.body === null ? response : new Response(await response.arrayBuffer(), response);
    }),
  },
  "truncates an answer that is too long to keep": {
    subject: "stream",
    caught: ["an answer above the cap, sent whole, arrives whole and is replayed without its body"],
    broken: changed(async (response) =>
      response.body === null
        ? response
        : new Response((await response.arrayBuffer()).slice(0, 65_536), response),
    ),
  },
  "buffers answers to requests without a key": {
    subject: "stream",
    caught: ["a streamed answer to a request without a key is not changed"],
    broken({ before }, handler) {
      const right = before(handler);
      return async (request) => {
        const response = await right(request);
        return request.headers.has(KEY) ? response : new Response(await response.arrayBuffer(), response);
      };
    },
  },
  "leaves the handler an empty body": {
    subject: "request-body",
    caught: ["a handler that reads the body sees JSON as without the layer"],
    broken: handledBy(
      (handler) =>
        ({ url, method }) =>
          handler(new Request(url, { method })),
    ),
  },
  "trusts the Content-Length": {
    subject: "request-body",
    caught: ["a chunked body that exceeds the limit is refused"],
    broken({ before }, handler) {
      const right = before(handler);
      const trusting = before(handler, { maxBodyBytes: 1_000_000_000 });
      return (request) => (request.headers.has("content-length") ? right(request) : trusting(request));
    },
  },
  "uses the first of two keys": {
    subject: "key",
    caught: ["two header lines with different keys are refused"],
    broken: shown((request) => {
      const [key] = request.headers.get(KEY)?.split(",") ?? [];
      if (key !== undefined) request.headers.set(KEY, key);
      return request;
    }),
  },
  "treats an empty key as no key": {
    subject: "key",
    caught: ["an empty key is refused"],
    broken: shown((request) => {
      if (request.headers.get(KEY) === "") request.headers.delete(KEY);
      return request;
    }),
  },
  "drops the added header lines": {
    subject: "key",
    caught: ["a preflight allows the key's header in addition to what the application allows"],
    broken({ before }, handler) {
      const right = before(handler);
      return (request) => (request.method === "OPTIONS" ? handler(request) : right(request));
    },
  },
  "treats all tenants as one": {
    subject: "key",
    caught: ["the same key of two tenants is two keys"],
    broken: ({ before }, handler) => before(handler, { scope: "anyone" }),
  },
  "runs a duplicate while the first request runs": {
    subject: "duplicate",
    caught: [
      "a duplicate of a running request gets 409, and later the answer",
      "of fifty equal requests at once, one runs",
    ],
    broken({ before }, handler) {
      const right = before(handler);
      return async (request) => {
        const copy = request.clone();
        const response = await right(request);
        return response.status === 409 ? handler(copy) : response;
      };
    },
  },
  "answers 200 for a handler that throws": {
    subject: "failure",
    caught: ["the framework answers for a handler that throws, and the key is released"],
    broken: handledBy((handler) => (request) => handler(request).catch(() => new Response("sorry"))),
  },
  "keeps every failure": {
    subject: "failure",
    caught: ["a 500 releases the key", "a 429 releases the key"],
    broken: ({ before }, handler) => before(handler, { keep: "keep" }),
  },
  "fails when the client disconnects": {
    subject: "disconnect",
    caught: ["a client disconnects while the handler runs, which then sends its answer: the retry gets it"],
    broken: handledBy((handler) => (request) => {
      const gone = new Promise<never>((_, reject) => {
        request.signal.addEventListener("abort", () => reject(new Error("gone")));
      });
      return Promise.race([handler(request), gone]);
    }),
  },
  "does not notice that the client has disconnected": {
    subject: "disconnect",
    caught: ["a client disconnects and the handler then fails: the outcome is unknown"],
    broken: shown((request) => new Request(request, { signal: new AbortController().signal })),
  },
  "treats half a body as a whole one": {
    subject: "disconnect",
    caught: ["a client that disconnects during a chunked body has claimed nothing"],
    broken: shown(async (request) => {
      const { url, method, headers, signal } = request;
      return new Request(url, { method, headers, signal, body: await readSoFar(request) });
    }),
  },
  "sends the answer of an attempt that was overtaken": {
    subject: "store-fault",
    caught: [
      "an answer that was overtaken by a running attempt is not sent, nor are its cookies",
      "an answer that was overtaken by a completed attempt is replaced by that attempt's answer",
    ],
    broken(layer, handler) {
      const watch = watched(layer, handler);
      return async (request) => {
        const [right, own] = watch(request);
        const response = await right;
        return isReplay(response) || response.status === 500
          ? Promise.race([own, Promise.resolve(response)])
          : response;
      };
    },
  },
  "never answers when the store is down": {
    subject: "store-fault",
    caught: ["a store that fails before the work means 503, and nothing is done"],
    broken: changed((response) => (response.status === 503 ? new Promise<never>(() => {}) : response)),
  },
} as const satisfies Record<string, Fault>;

export function brokenHarness({ broken }: Fault): AdapterHarness<Request> {
  return {
    ...fetchHarness,
    // Nothing here takes long, so a hanging case is found soon.
    patienceMs: 1_500,
    serve({ layer, handle }) {
      const handler: Handler = async (request) =>
        toResponse(await handle(seenBy(request, attemptOf(request))));
      const before: Layer["before"] = (each, options) =>
        layer === undefined ? each : withIdempotency(layer.guard, { ...layer.options, ...options }, each);
      const served = layer === undefined ? handler : broken({ before }, handler);
      return {
        async send(sent) {
          try {
            return fromResponse(await served(toRequest(sent)));
          } catch (error) {
            return fromResponse(new Response(String(error), { status: 500 }));
          }
        },
        stop() {},
      };
    },
  };
}
