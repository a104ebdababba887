/**
 * Decides which request bodies are read: only those of routes that take a body, after the caller was authenticated. All
 * other requests are answered without reading their body, so that clients without access cannot use up memory.
 */
import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteShorthandOptions } from "fastify";
import { NevertwiceError } from "nevertwice";

/** Limit for a request to the API: room for the largest outcome that a store accepts. */
export const MAX_BODY_BYTES = 1_500_000;
/** Limit for the sign-in request: an access token and a few characters of JSON. */
export const MAX_SIGN_IN_BYTES = 4_096;
/**
 * Deeper JSON is refused before it is parsed, so that recursive code cannot overflow the stack. Outcomes may have 256
 * levels, and fingerprints 128.
 */
const MAX_JSON_DEPTH = 300;
/**
 * An unread body up to this length is received and discarded, so that the client can read the response and keep its
 * connection. For a longer body the connection is closed.
 */
const MAX_DISCARDED_BYTES = 65_536;

declare module "fastify" {
  interface FastifyContextConfig {
    readonly takesBody?: true;
  }
}

/** The options of a route that takes a body. Without them a route never gets one. */
export function takeBody(bodyLimit: number): Pick<RouteShorthandOptions, "bodyLimit" | "config"> {
  return { bodyLimit, config: { takesBody: true } };
}

export function guardBodies(app: FastifyInstance): void {
  const expecting = new WeakSet<IncomingMessage>();
  // Node would send 100 Continue at once. This server sends it after it has authenticated the caller.
  app.server.on("checkContinue", (req, res) => {
    expecting.add(req);
    app.server.emit("request", req, res);
  });
  app.addHook("onRequest", async ({ raw, routeOptions }) => {
    if (routeOptions.config.takesBody === true) return;
    longBodies.set(raw, isLongBody(raw));
    // Fastify reads a body only if one of these headers is present.
    for (const name of ["content-type", "content-length", "transfer-encoding"]) delete raw.headers[name];
  });
  app.addHook("preParsing", async ({ raw, routeOptions: { config, bodyLimit } }, reply) => {
    const isFit = Number(raw.headers["content-length"] ?? 0) <= bodyLimit;
    // While an earlier response is being sent, node would write 100 Continue between its head and its body.
    const isNext = reply.raw.socket !== null;
    if (config.takesBody === true && isFit && isNext && expecting.has(raw)) reply.raw.writeContinue();
  });
  app.addHook("onSend", async (request, reply) => closeUnread(request, reply));
  app.removeAllContentTypeParsers();
  const parse = app.getDefaultJsonParser("error", "error");
  app.addContentTypeParser<string>("application/json", { parseAs: "string" }, (request, text, done) => {
    if (isDeeper(text, MAX_JSON_DEPTH)) done(nestedTooDeep());
    else void parse(request, text, done);
  });
}

/** Whether the body is long, for requests whose body headers were removed above. */
const longBodies = new WeakMap<IncomingMessage, boolean>();

/** Closes the connection after the response. Otherwise node would read the rest of the body, however long it is. */
export function closeUnread({ raw }: Pick<FastifyRequest, "raw">, reply: FastifyReply): void {
  if (!raw.complete && (longBodies.get(raw) ?? isLongBody(raw))) reply.header("connection", "close");
}

function isLongBody({ headers }: IncomingMessage): boolean {
  return (
    headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > MAX_DISCARDED_BYTES
  );
}

/** Counts the brackets outside of strings. Text that is not JSON may pass; the parser refuses it later. */
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

function nestedTooDeep(): NevertwiceError {
  return new NevertwiceError("request-invalid", `the body is nested deeper than ${MAX_JSON_DEPTH} levels.`);
}
