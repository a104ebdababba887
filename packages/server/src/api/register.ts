/** Puts routes on the server: each is called only with what its schemas allow, by whom its roles allow. */
import { Readable } from "node:stream";
import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type ErrorCode, isNevertwiceError, NevertwiceError } from "nevertwice";
import type { Caller } from "../access.ts";
import { MAX_BODY_BYTES, takingBody } from "../bodies.ts";
import type { Gatekeeper } from "../gatekeeper.ts";
import { sendProblem } from "../problems.ts";
import type { ApiAnswer, JsonSchema, Parameter, Route } from "./route.ts";

/** Bodies are taken as they are; what stands in an address is text, and read as what it should be. */
const ofBodies = new Ajv({ allErrors: false, strict: false, coerceTypes: false });
const ofText = new Ajv({ allErrors: false, strict: false, coerceTypes: true });

type Check = (what: string, value: unknown) => void;

export function registerRoutes(app: FastifyInstance, routes: readonly Route[], gatekeeper: Gatekeeper): void {
  for (const route of routes) {
    const checks = {
      params: checkOf(ofText, parametersSchema(route.params)),
      query: checkOf(ofText, parametersSchema(route.query)),
      headers: checkOf(ofText, parametersSchema(route.headers, true)),
      body: route.body === undefined ? undefined : checkOf(ofBodies, route.body),
    };
    app.route({
      method: route.method,
      url: route.path.replace(/\{(\w+)\}/g, ":$1"),
      ...(route.body !== undefined && takingBody(MAX_BODY_BYTES)),
      // Runs before the body is read, so that the body of a refused request never is.
      async onRequest(request, reply) {
        try {
          const caller = await gatekeeper.callerOf(request.raw);
          gatekeeper.checkRole(caller, route.roles);
        } catch (error) {
          return refuse(request, reply, error);
        }
      },
      async handler(request, reply) {
        try {
          checks.params("the address", request.params);
          checks.query("the query", request.query);
          checks.headers("the headers", { ...request.headers });
          if (request.body !== undefined || route.bodyIsOptional !== true)
            checks.body?.("the body", request.body);
          return send(
            reply,
            route,
            await route.handle({
              params: request.params as Readonly<Record<string, string>>,
              query: request.query as Readonly<Record<string, unknown>>,
              body: request.body,
              header: (name) => textOf(request.headers[name.toLowerCase()]),
              caller: gatekeeper.knownCaller(request.raw) as Caller,
              isStillWelcome: () => isWelcome(gatekeeper, request),
              signal: gone(reply),
            }),
          );
        } catch (error) {
          return refuse(request, reply, error);
        }
      },
    });
  }
  // Before the server waits for its connections: a stream would keep its own open.
  app.addHook("preClose", async () => {
    for (const route of routes) route.close?.();
  });
}

/** True while the store does not answer: an outage must not end the streams of valid callers. */
async function isWelcome(gatekeeper: Gatekeeper, { raw }: FastifyRequest): Promise<boolean> {
  return gatekeeper.callerOf(raw).then(
    () => true,
    (error: unknown) => !isNevertwiceError(error, "not-authenticated"),
  );
}

function send(reply: FastifyReply, { answers }: Route, answer: ApiAnswer): FastifyReply {
  if ("problem" in answer) return sendProblem(reply, answer.problem, answer.more);
  const { status, headers, body } = answer;
  const type = answers[status]?.type;
  // Otherwise the stream would stay open after a HEAD, whose answer has no body to read.
  if (body instanceof Readable) reply.raw.once("close", () => body.destroy());
  return reply
    .code(status)
    .headers({ ...(type !== undefined && { "content-type": type }), ...headers })
    .send(body);
}

/** What the library calls an option is what a caller asked for here. */
const CALLERS_FAULT: readonly ErrorCode[] = ["options-invalid", "scope-missing"];

function refuse(request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply {
  if (isNevertwiceError(error)) {
    if (!CALLERS_FAULT.includes(error.code)) return sendProblem(reply, error);
    const detail = error.message.slice(error.code.length + ": ".length);
    return sendProblem(reply, new NevertwiceError("request-invalid", detail));
  }
  request.log.error({ err: error }, "a request failed");
  return sendProblem(
    reply,
    new NevertwiceError(
      "internal-error",
      "the server failed while it handled the request; its log says more.",
    ),
  );
}

function parametersSchema(
  parameters: Readonly<Record<string, Parameter>> = {},
  hasOthers = false,
): JsonSchema {
  const entries = Object.entries(parameters)
    .filter(([, { isCheckedByRoute }]) => isCheckedByRoute !== true)
    .map(([name, parameter]) => [hasOthers ? name.toLowerCase() : name, parameter] as const);
  return {
    type: "object",
    properties: Object.fromEntries(entries.map(([name, { schema }]) => [name, schema])),
    required: entries.filter(([, { required }]) => required === true).map(([name]) => name),
    additionalProperties: hasOthers,
  };
}

function checkOf(ajv: Ajv, schema: JsonSchema): Check {
  const validate: ValidateFunction = ajv.compile(schema);
  return (what, value) => {
    if (validate(value)) return;
    const [problem] = validate.errors ?? [];
    const where = problem?.instancePath ? `${what}, at ${problem.instancePath}` : what;
    throw new NevertwiceError("request-invalid", `${where}: ${sentenceOf(problem)}.`);
  };
}

function sentenceOf(problem: ErrorObject | undefined): string {
  const { additionalProperty, allowedValues } = problem?.params ?? {};
  if (additionalProperty !== undefined)
    return `there is nothing called ${JSON.stringify(additionalProperty)}`;
  if (allowedValues !== undefined) return `must be one of ${allowedValues.join(", ")}`;
  return problem?.message ?? "is not as it should be";
}

function textOf(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === "string" || value === undefined ? value : value.join(", ");
}

function gone({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  raw.once("close", () => {
    if (!raw.writableFinished) controller.abort();
  });
  return controller.signal;
}
