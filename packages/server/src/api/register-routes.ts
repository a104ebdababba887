/** Registers the routes: each handler runs only for an authorized caller and a request that matches its schemas. */
import { Readable } from "node:stream";
import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type ErrorCode, isNevertwiceError, NevertwiceError } from "nevertwice";
import type { Caller } from "../access.ts";
import { MAX_BODY_BYTES, takeBody } from "../bodies.ts";
import type { Gatekeeper } from "../gatekeeper.ts";
import { sendProblem } from "../problems.ts";
import type { ApiAnswer, ApiRoute, JsonSchema, Parameter } from "./route.ts";

type SchemaCheck = (what: string, value: unknown) => void;

/** A body must have the types of its schema. The parts of an address are text and are converted first. */
const bodyCheck = createChecks(false);
const textCheck = createChecks(true);

export function registerRoutes(
  app: FastifyInstance,
  routes: readonly ApiRoute[],
  gatekeeper: Gatekeeper,
): void {
  for (const route of routes) {
    const checks = {
      params: textCheck(parametersSchema(route.params)),
      query: textCheck(parametersSchema(route.query)),
      headers: textCheck(parametersSchema(route.headers, true)),
      body: route.body === undefined ? undefined : bodyCheck(route.body),
    };
    app.route({
      method: route.method,
      url: route.path.replace(/\{(\w+)\}/g, ":$1"),
      ...(route.body !== undefined && takeBody(MAX_BODY_BYTES)),
      // Runs before the body is read, so that the body of a refused request is never read.
      async onRequest(request, reply) {
        try {
          const caller = await gatekeeper.authenticate(request.raw);
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
              header: (name) => headerText(request.headers[name.toLowerCase()]),
              caller: gatekeeper.knownCaller(request.raw) as Caller,
              isStillWelcome: () => isWelcome(gatekeeper, request),
              signal: abortWhenClosed(reply),
            }),
          );
        } catch (error) {
          return refuse(request, reply, error);
        }
      },
    });
  }
  // Runs before the server waits for its connections to close: an open stream would keep its connection open.
  app.addHook("preClose", async () => {
    for (const route of routes) route.close?.();
  });
}

/** True also while the store is unavailable: an outage must not end the streams of valid callers. */
async function isWelcome(gatekeeper: Gatekeeper, { raw }: FastifyRequest): Promise<boolean> {
  return gatekeeper.authenticate(raw).then(
    () => true,
    (error: unknown) => !isNevertwiceError(error, "not-authenticated"),
  );
}

function send(reply: FastifyReply, { answers }: ApiRoute, answer: ApiAnswer): FastifyReply {
  if ("problem" in answer) return sendProblem(reply, answer.problem, answer.more);
  const { status, headers, body } = answer;
  const type = answers[status]?.type;
  // Otherwise the stream would stay open after a HEAD request, whose response has no body.
  if (body instanceof Readable) reply.raw.once("close", () => body.destroy());
  return reply
    .code(status)
    .headers({ ...(type !== undefined && { "content-type": type }), ...headers })
    .send(body);
}

/** The library reports these as wrong options. Here the options come from the request, so they become request-invalid. */
const CAUSED_BY_REQUEST: readonly ErrorCode[] = ["options-invalid", "scope-missing"];

function refuse(request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply {
  if (isNevertwiceError(error)) {
    if (!CAUSED_BY_REQUEST.includes(error.code)) return sendProblem(reply, error);
    const detail = error.message.slice(error.code.length + ": ".length);
    return sendProblem(reply, new NevertwiceError("request-invalid", detail));
  }
  request.log.error({ err: error }, "a request failed");
  return sendProblem(
    reply,
    new NevertwiceError("internal-error", "the server failed while it handled the request; see its log."),
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

/**
 * A schema is compiled when it is first used, and once for all servers of the process: to compile all of them at the
 * start would take a third of the time that the server needs to start. A test checks that every schema is valid.
 */
function createChecks(coerceTypes: boolean): (schema: JsonSchema) => SchemaCheck {
  const ajv = new Ajv({ allErrors: false, strict: false, meta: false, validateSchema: false, coerceTypes });
  const compiled = new Map<string, ValidateFunction>();

  function compile(schema: JsonSchema): ValidateFunction {
    const text = JSON.stringify(schema);
    const validate = compiled.get(text) ?? ajv.compile(schema);
    compiled.set(text, validate);
    return validate;
  }

  return (schema) => {
    let validate: ValidateFunction | undefined;
    return (what, value) => {
      validate ??= compile(schema);
      if (validate(value)) return;
      const [problem] = validate.errors ?? [];
      const where = problem?.instancePath ? `${what}, at ${problem.instancePath}` : what;
      throw new NevertwiceError("request-invalid", `${where}: ${describeProblem(problem)}.`);
    };
  };
}

function describeProblem(problem: ErrorObject | undefined): string {
  const { additionalProperty, allowedValues } = problem?.params ?? {};
  if (additionalProperty !== undefined) return `${JSON.stringify(additionalProperty)} is not a known member`;
  if (allowedValues !== undefined) return `must be one of ${allowedValues.join(", ")}`;
  return problem?.message ?? "does not match its schema";
}

function headerText(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === "string" || value === undefined ? value : value.join(", ");
}

function abortWhenClosed({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  raw.once("close", () => {
    if (!raw.writableFinished) controller.abort();
  });
  return controller.signal;
}
