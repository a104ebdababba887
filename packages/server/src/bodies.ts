/**
 * Which requests have their body read: those of a route that takes one, after its caller was checked. All others are
 * answered without it, so that strangers cannot make the server hold or read what they send.
 */
import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteShorthandOptions } from "fastify";
import { NevertwiceError } from "nevertwice";

/** Limit for a request to the API: room for the largest outcome that a store keeps. */
export const MAX_BODY_BYTES = 1_500_000;
/** Limit for the request that signs in: an access token and a few characters of JSON. */
export const MAX_SIGN_IN_BYTES = 4_096;
/**
 * JSON that is nested deeper is refused before it is parsed, so that no code that walks through it overflows. Outcomes
 * may have 256 levels, and fingerprints 128.
 */
const MAX_JSON_DEPTH = 300;
/**
 * An unread body that is no longer than this may still arrive, and is thrown away, so that the client reads its answer
 * and keeps its connection. For a longer one the connection is closed.
 */
const MAX_DISCARDED_BYTES = 65_536;

declare module "fastify" {
  interface FastifyContextConfig {
    readonly takesBody?: true;
  }
}

/** The options of a route that takes a body. Without them a route never sees one. */
export function takingBody(bodyLimit: number): Pick<RouteShorthandOptions, "bodyLimit" | "config"> {
  return { bodyLimit, config: { takesBody: true } };
}

export function guardBodies(app: FastifyInstance): void {
  const expecting = new WeakSet<IncomingMessage>();
  // Node would ask for the body at once. Here it is asked for once the caller is known.
  app.server.on("checkContinue", (req, res) => {
    expecting.add(req);
    app.server.emit("request", req, res);
  });
  app.addHook("onRequest", async ({ raw, routeOptions }) => {
    if (routeOptions.config.takesBody === true) return;
    longBodies.set(raw, isLongBody(raw));
    // Fastify reads a body only if one of these headers announces it.
    for (const name of ["content-type", "content-length", "transfer-encoding"]) delete raw.headers[name];
  });
  app.addHook("preParsing", async ({ raw, routeOptions: { config, bodyLimit } }, reply) => {
    const isFit = Number(raw.headers["content-length"] ?? 0) <= bodyLimit;
    // Behind another answer node would write it between the head and the body of this one.
    const isNext = reply.raw.socket !== null;
    if (config.takesBody === true && isFit && isNext && expecting.has(raw)) reply.raw.writeContinue();
  });
  app.addHook("onSend", async (request, reply) => closeUnread(request, reply));
  app.removeAllContentTypeParsers();
  const parse = app.getDefaultJsonParser("error", "error");
  app.addContentTypeParser<string>("application/json", { parseAs: "string" }, (request, text, done) => {
    if (isDeeper(text, MAX_JSON_DEPTH)) done(tooDeep());
    else parse(request, text, done);
  });
}

/** Whether the body is long, for requests whose headers were removed. */
const longBodies = new WeakMap<IncomingMessage, boolean>();

/** Closes the connection after the answer: node would otherwise read the rest of the body, however long it is. */
export function closeUnread({ raw }: Pick<FastifyRequest, "raw">, reply: FastifyReply): void {
  if (!raw.complete && (longBodies.get(raw) ?? isLongBody(raw))) reply.header("connection", "close");
}

function isLongBody({ headers }: IncomingMessage): boolean {
  return (
    headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > MAX_DISCARDED_BYTES
  );
}

/** Counts the brackets outside of strings. Text that is not JSON may pass here; the parser refuses it. */
function isDeeper(text: string, most: number): boolean {
  let depth = 0;
  let isInString = false;
  for (let index = 0; index < text.length; index++) {
    const character = text[index];
    if (isInString) {
      if (character === "\\") index++;
      else if (character === '"') isInString = false;
    } else if (character === '"') isInString = true;
    else if (character === "[" || character === "{") {
      depth++;
      if (depth > most) return true;
    } else if (character === "]" || character === "}") depth--;
  }
  return false;
}

function tooDeep(): NevertwiceError {
  return new NevertwiceError("request-invalid", `the body is nested deeper than ${MAX_JSON_DEPTH} levels.`);
}
