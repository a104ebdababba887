/** The service on Hono. */
import { createAdaptorServer } from "@hono/node-server";
import { Hono } from "hono";
import { idempotency } from "nevertwice/http/hono";
import { ANYONE, DERIVED, listening, ROUTES } from "./door.js";

/** @type {import("./door.js").OpenDoor} */
export function open({ guard, port, serve }) {
  const app = new Hono();
  const layered = guard();
  for (const { path, options } of ROUTES)
    app.post(path, idempotency(layered, { ...ANYONE, ...options }), async (c) => {
      const answer = await serve(await c.req.text(), { key: c.get("idempotency")?.deriveKey(DERIVED) });
      if (answer === undefined) throw new Error("only a plain service loses its connection");
      return Response.json(answer.body, { status: answer.status });
    });
  const server = createAdaptorServer({ fetch: app.fetch });
  return listening(/** @type {import("node:http").Server} */ (server), port);
}
