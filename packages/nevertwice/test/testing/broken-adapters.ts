/** The adapter for `Request → Response` functions, broken: each fault names cases that must find it. */
import { attemptOf, withIdempotency } from "../../src/http/fetch.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import type { AdapterHarness, AdapterSubject } from "../../src/testing/adapter-cases.ts";
import { fetchHarness } from "../http/adapters/fetch.ts";
import { fromResponse, seenBy, toRequest, toResponse } from "../http/adapters/web.ts";

type Handler = (request: Request) => Promise<Response>;

/** Puts the layer, right or wrong, before a handler. */
interface Layer {
  before(handler: Handler, options?: Partial<HttpOptions<Request>>): Handler;
}

interface Fault {
  readonly subject: AdapterSubject;
  readonly caught: readonly string[];
  broken(layer: Layer, handler: Handler): Handler;
}

const KEY = "idempotency-key";
const isReplay = (response: Response): boolean => response.headers.has("idempotent-replayed");

/** What the layer answers, changed on its way out. */
const changed =
  (change: (response: Response) => Promise<Response> | Response): Fault["broken"] =>
  ({ before }, handler) => {
    const right = before(handler);
    return async (request) => change(await right(request));
  };

/** A fault in how the layer runs the handler. */
const handledBy =
  (wrong: (handler: Handler) => Handler): Fault["broken"] =>
  ({ before }, handler) =>
    before(wrong(handler));

/** What the layer is shown of the request. */
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

/** The layer's answer, and what the handler answered behind it, as soon as it did. */
function watched(
  { before }: Layer,
  handler: Handler,
): (request: Request) => [Promise<Response>, Promise<Response>] {
  return (request) => {
    let tell: (response: Response) => void = () => undefined;
    const own = new Promise<Response>((resolve) => {
      tell = resolve;
    });
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
    // Whoever sent it has gone, and this adapter does not mind.
  }
  return Buffer.concat(chunks);
}

export const BROKEN_ADAPTERS = {
  "sends before the store has answered": {
    subject: "first-answer",
    caught: ["no byte leaves before the store has answered"],
    broken(layer, handler) {
      const watch = watched(layer, handler);
      return (request) => Promise.race(watch(request));
    },
  },
  "sends one cookie of many": {
    subject: "first-answer",
    caught: ["an answer that sets many cookies leaves as the bare application sends it"],
    broken: changed((response) =>
      withHeaders(response, (headers) => {
        const [cookie] = headers.getSetCookie();
        if (cookie !== undefined) headers.set("set-cookie", cookie);
      }),
    ),
  },
  "takes bodies for text": {
    subject: "first-answer",
    caught: ["a binary answer of every byte value leaves as the bare application sends it"],
    broken: changed(async (response) =>
      response.body === null ? response : new Response(await response.text(), response),
    ),
  },
  "hands the handler no attempt": {
    subject: "first-answer",
    caught: ["the handler finds its attempt, with a fence and keys for others"],
    broken: handledBy((handler) => (request) => handler(new Request(request))),
  },
  "does not mark its replays": {
    subject: "replay",
    caught: ["an empty 200 comes back as it was", "a 204 comes back as it was"],
    broken: changed((response) => withHeaders(response, (headers) => headers.delete("idempotent-replayed"))),
  },
  "replays without where to go": {
    subject: "replay",
    caught: ["a 303 with a Location comes back as it was"],
    broken: changed((response) =>
      isReplay(response) ? withHeaders(response, (headers) => headers.delete("location")) : response,
    ),
  },
  "runs the handler for replays too": {
    subject: "replay",
    caught: ["a JSON answer with a Location, an ETag and two Link lines comes back as it was"],
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
  "replays the cookies of the answer before": {
    subject: "replay",
    caught: ["an answer that sets many cookies comes back as it was"],
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
  "reads a stream to its end": {
    subject: "stream",
    caught: [
      "while an answer is held back its producer is not read on",
      "an event stream of the framework's own arrives as it is made",
    ],
    broken: handledBy((handler) => async (request) => {
      const response = await handler(request);
      return response.body === null ? response : new Response(await response.arrayBuffer(), response);
    }),
  },
  "cuts off what is too long to keep": {
    subject: "stream",
    caught: ["an answer above the cap, sent whole, arrives whole and comes back as its head alone"],
    broken: changed(async (response) =>
      response.body === null
        ? response
        : new Response((await response.arrayBuffer()).slice(0, 65_536), response),
    ),
  },
  "buffers what is not for it": {
    subject: "stream",
    caught: ["a streamed answer to a request without a key flows untouched"],
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
    caught: ["a handler that reads for itself sees JSON as without the layer"],
    broken: handledBy(
      (handler) =>
        ({ url, method }) =>
          handler(new Request(url, { method })),
    ),
  },
  "trusts the length that it is told": {
    subject: "request-body",
    caught: ["a body in chunks that grows too long is refused"],
    broken({ before }, handler) {
      const right = before(handler);
      const trusting = before(handler, { maxBodyBytes: 1_000_000_000 });
      return (request) => (request.headers.has("content-length") ? right(request) : trusting(request));
    },
  },
  "takes the first of two keys": {
    subject: "key",
    caught: ["two lines of keys are refused"],
    broken: shown((request) => {
      const [key] = request.headers.get(KEY)?.split(",") ?? [];
      if (key !== undefined) request.headers.set(KEY, key);
      return request;
    }),
  },
  "takes an empty key for none": {
    subject: "key",
    caught: ["an empty key is refused"],
    broken: shown((request) => {
      if (request.headers.get(KEY) === "") request.headers.delete(KEY);
      return request;
    }),
  },
  "loses the lines that are added": {
    subject: "key",
    caught: ["a preflight is told that the key may be sent, besides what the application allows"],
    broken({ before }, handler) {
      const right = before(handler);
      return (request) => (request.method === "OPTIONS" ? handler(request) : right(request));
    },
  },
  "takes all tenants for one": {
    subject: "key",
    caught: ["one key of two tenants is two keys"],
    broken: ({ before }, handler) => before(handler, { scope: "anyone" }),
  },
  "runs while another runs": {
    subject: "duplicate",
    caught: [
      "a duplicate of a running request is told to come back, and then gets its answer",
      "of fifty equal requests at once one runs",
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
  "answers well for a handler that throws": {
    subject: "failure",
    caught: ["a handler that throws is answered for by the framework, and frees the key"],
    broken: handledBy((handler) => (request) => handler(request).catch(() => new Response("sorry"))),
  },
  "keeps every failure": {
    subject: "failure",
    caught: ["a 500 frees the key", "a 429 frees the key"],
    broken: ({ before }, handler) => before(handler, { keep: "keep" }),
  },
  "fails when the client goes": {
    subject: "disconnect",
    caught: [
      "a client leaves while the handler runs, which then sends its answer: the retry waits and is given it",
    ],
    broken: handledBy((handler) => (request) => {
      const gone = new Promise<never>((_, reject) => {
        request.signal.addEventListener("abort", () => reject(new Error("gone")));
      });
      return Promise.race([handler(request), gone]);
    }),
  },
  "does not see that the client has gone": {
    subject: "disconnect",
    caught: ["a client leaves and the handler then fails: nobody is told that nothing happened"],
    broken: shown((request) => new Request(request, { signal: new AbortController().signal })),
  },
  "takes half a body for a whole one": {
    subject: "disconnect",
    caught: ["a client that leaves before its body in chunks is whole has claimed nothing"],
    broken: shown(async (request) => {
      const { url, method, headers, signal } = request;
      return new Request(url, { method, headers, signal, body: await readSoFar(request) });
    }),
  },
  "gives the answer of an attempt that was overtaken": {
    subject: "store-fault",
    caught: [
      "an answer that was overtaken by a running attempt is not given, and its cookies neither",
      "an answer that was overtaken by an attempt that is done gives way to that one's answer",
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
    caught: ["a store that refuses before the work means 503, and nothing is done"],
    broken: changed((response) => (response.status === 503 ? new Promise<never>(() => {}) : response)),
  },
} as const satisfies Record<string, Fault>;

export function brokenHarness({ broken }: Fault): AdapterHarness<Request> {
  return {
    ...fetchHarness,
    // Nothing here takes long, so what hangs is found soon.
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
