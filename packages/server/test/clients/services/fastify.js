/** The service on Fastify. */
import fastify from "fastify";
import { idempotency } from "nevertwice/http/fastify";
import { ANYONE, DERIVED, ROUTES } from "./door.js";

/** @type {import("./door.js").OpenDoor} */
export async function open({ guard, port, serve }) {
  const app = fastify({ forceCloseConnections: true });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => done(null, body));
  await app.register(idempotency(guard(), ANYONE));
  for (const { path, options } of ROUTES)
    app.post(path, { config: { idempotency: options } }, async (request, reply) => {
      const answer = await serve(String(request.body), { key: request.idempotency?.deriveKey(DERIVED) });
      if (answer !== undefined) await reply.status(answer.status).send(answer.body);
    });
  await app.listen({ port, host: "127.0.0.1" });
  return /** @type {import("node:net").AddressInfo} */ (app.server.address());
}
