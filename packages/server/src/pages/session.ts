/** The dashboard's way in: an access token is shown once, and a cookie and a header stand for it from then on. */
import type { FastifyInstance, FastifyReply } from "fastify";
import { isNevertwiceError, NevertwiceError } from "nevertwice";
import type { Caller } from "../access.ts";
import { MAX_SIGN_IN_BYTES, takingBody } from "../bodies.ts";
import { sendProblem } from "../problems.ts";
import type { PagesParts } from "./pages.ts";

/** Longer than any token is. */
const MAX_TOKEN_LENGTH = 1_024;

export function registerSession(app: FastifyInstance, { context, gatekeeper, sessions }: PagesParts): void {
  app.get("/session", (request, reply) =>
    answered(reply, async () => {
      const session = await sessions.sessionOf(request.headers);
      if (session !== undefined) return { needed: true, caller: shown(session.caller), csrf: session.csrf };
      const needed = await context.access.isRequired();
      return { needed, caller: needed ? null : shown(await gatekeeper.callerOf(request.raw)), csrf: null };
    }),
  );

  app.post("/session", takingBody(MAX_SIGN_IN_BYTES), (request, reply) =>
    answered(reply, async () => {
      const opened = await gatekeeper.signIn(request.raw, tokenIn(request.body));
      if (opened === undefined)
        throw new NevertwiceError("not-authenticated", "the access token is not known, or was revoked.");
      reply.header("set-cookie", opened.cookie);
      return { needed: true, caller: shown(opened.session.caller), csrf: opened.session.csrf };
    }),
  );

  app.delete("/session", (request, reply) =>
    answered(reply, async () => {
      // Asked for its header: no other page may end a session.
      await sessions.callerOf(request.headers, false);
      reply.header("set-cookie", await sessions.close(request.headers));
      return { needed: await context.access.isRequired(), caller: null, csrf: null };
    }),
  );
}

async function answered(reply: FastifyReply, answer: () => Promise<object>): Promise<FastifyReply> {
  try {
    return reply.send(await answer());
  } catch (error) {
    if (isNevertwiceError(error)) return sendProblem(reply, error);
    throw error;
  }
}

function shown({ name, roles, namespace }: Caller): object {
  return { name, roles, namespace };
}

function tokenIn(body: unknown): string {
  const { token } = (typeof body === "object" && body !== null ? body : {}) as { readonly token?: unknown };
  if (typeof token === "string" && token.length <= MAX_TOKEN_LENGTH) return token;
  throw new NevertwiceError("request-invalid", 'the body must be {"token": "…"}.');
}
