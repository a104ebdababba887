/** `Request → Response` functions, called as a server of that kind calls them. */
import { attemptOf, withIdempotency } from "../../../src/http/fetch.ts";
import type { AdapterHarness } from "../../../src/testing/adapter-cases.ts";
import { fromResponse, seenBy, toRequest, toResponse } from "./web.ts";

export const fetchHarness: AdapterHarness<Request> = {
  lacks: {
    "header-lines": "a Request has its header lines joined",
    routes: "there is no router",
    written: "a Response has a stream, and nothing to write to",
    flush: "a Response has no head apart from itself",
    trailers: "a Response has no trailers",
    reason: "servers do not send a Response's statusText",
    connections: "there is no connection, only a function",
    upgrades: "there is no server, only a function",
    "parser-before": "a Request's body is read once: a parser before the layer would take it away",
    "parser-after": "the handler itself parses, by request.json()",
  },
  header: (request, name) => request.headers.get(name) ?? undefined,
  serve({ layer, handle }) {
    const handler = async (request: Request) => toResponse(await handle(seenBy(request, attemptOf(request))));
    const served = layer === undefined ? handler : withIdempotency(layer.guard, layer.options, handler);
    return {
      async send(sent) {
        try {
          return fromResponse(await served(toRequest(sent)));
        } catch (error) {
          // A server answers 500 for a function that throws.
          return fromResponse(new Response(String(error), { status: 500 }));
        }
      },
      stop() {},
    };
  },
};
