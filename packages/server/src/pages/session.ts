/** Signs a user in to the dashboard: the access token is sent once, then a cookie and a CSRF header replace it. */
import type { FastifyInstance, FastifyReply } from "fastify";
import { isNevertwiceError, NevertwiceError } from "nevertwice";
import type { Caller } from "../access.ts";
import type { CallerJson, SessionJson } from "../api/api-json.ts";
import { MAX_SIGN_IN_BYTES, takeBody } from "../bodies.ts";
import { sendProblem } from "../problems.ts";
import type { PagesParts } from "./pages.ts";

/** Longer than any valid token. */
const MAX_TOKEN_LENGTH = 1_024;

export function registerSession(app: FastifyInstance, { context, gatekeeper, sessions }: PagesParts): void {
  app.get("/session", (request, reply) =>
    sendSession(reply, async () => {
      const session = await sessions.find(request.headers);
      if (session !== undefined)
        return { needed: true, caller: toCallerJson(session.caller), csrf: session.csrf };
      const needed = await context.access.isRequired();
      return {
        needed,
        caller: needed ? null : toCallerJson(await gatekeeper.authenticate(request.raw)),
        csrf: null,
      };
    }),
  );

  app.post("/session", takeBody(MAX_SIGN_IN_BYTES), (request, reply) =>
    sendSession(reply, async () => {
      const opened = await gatekeeper.signIn(request.raw, tokenIn(request.body));
      if (opened === undefined)
        throw new NevertwiceError("not-authenticated", "the access token is unknown or was revoked.");
      reply.header("set-cookie", opened.cookie);
      return { needed: true, caller: toCallerJson(opened.session.caller), csrf: opened.session.csrf };
    }),
  );

  app.delete("/session", (request, reply) =>
    sendSession(reply, async () => {
      // Checks the CSRF header: a page of another site must not end the session.
      await sessions.findCaller(request.headers, false);
      reply.header("set-cookie", await sessions.close(request.headers));
      return { needed: await context.access.isRequired(), caller: null, csrf: null };
    }),
  );
}

async function sendSession(reply: FastifyReply, answer: () => Promise<SessionJson>): Promise<FastifyReply> {
  try {
    return reply.send(await answer());
  } catch (error) {
    if (isNevertwiceError(error)) return sendProblem(reply, error);
    throw error;
  }
}

function toCallerJson({ name, roles, namespace }: Caller): CallerJson {
  return { name, roles, namespace };
}

function tokenIn(body: unknown): string {
  const { token } = (typeof body === "object" && body !== null ? body : {}) as { readonly token?: unknown };
  if (typeof token === "string" && token.length <= MAX_TOKEN_LENGTH) return token;
  throw new NevertwiceError("request-invalid", 'the body must be {"token": "…"}.');
}
