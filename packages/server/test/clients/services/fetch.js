/** The service as functions from a `Request` to a `Response`, on the server of Hono, which calls such functions. */
import { createAdaptorServer } from "@hono/node-server";
import { attemptOf, withIdempotency } from "nevertwice/http/fetch";
import { ANYONE, DERIVED, listening, ROUTES } from "./door.js";

/** @type {import("./door.js").OpenDoor} */
export function open({ guard, port, serve }) {
  const layered = guard();
  /** @param {Request} request */
  const handle = async (request) => {
    const answer = await serve(await request.text(), { key: attemptOf(request)?.deriveKey(DERIVED) });
    if (answer === undefined) throw new Error("only a plain service loses its connection");
    return Response.json(answer.body, { status: answer.status });
  };
  const handlers = new Map(
    ROUTES.map(({ path, options }) => [path, withIdempotency(layered, { ...ANYONE, ...options }, handle)]),
  );
  /** @param {Request} request */
  const route = (request) =>
    handlers.get(new URL(request.url).pathname)?.(request) ?? new Response(null, { status: 404 });
  return listening(/** @type {import("node:http").Server} */ (createAdaptorServer({ fetch: route })), port);
}
