/** Nest 12: on Express and on Fastify with handlers that return their answer, and on Express with one that sends it. */
import "reflect-metadata";
import type { IncomingHttpHeaders, Server } from "node:http";
import { Readable } from "node:stream";
import {
  All,
  Controller,
  type DynamicModule,
  type INestApplication,
  Module,
  Req,
  Res,
  StreamableFile,
  type Type,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import type { HttpAttempt } from "../../../src/http/http-attempt.ts";
import { IdempotencyAttempt, idempotency } from "../../../src/http/nest.ts";
import type { AdapterHarness, ScriptedAnswer, ScriptedApp } from "../../../src/testing/adapter-cases.ts";
import { answerBy } from "./express.ts";
import { headerOf, headersOf } from "./sockets.ts";

/** What the requests of both platforms have. */
interface NestRequest {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly body?: unknown;
  readonly raw?: Readable;
}

/** What the responses of both platforms have. */
interface NestResponse {
  status(code: number): unknown;
  header(name: string, value: string | string[]): unknown;
}

type Handler = (request: NestRequest, response: never, attempt: HttpAttempt | undefined) => Promise<unknown>;

function answerTo(
  { handle, parser }: ScriptedApp<NestRequest>,
  request: NestRequest,
  attempt: HttpAttempt | undefined,
): Promise<ScriptedAnswer> {
  const { method, body, raw } = request;
  if (parser !== "none") return handle({ method, attempt, parsed: body });
  // Fastify's request is not a stream itself, and its parser has left the stream in its body.
  return handle({ method, attempt, stream: () => (raw === undefined ? request : (body ?? raw)) as Readable });
}

/** As a handler returns its answer, which Nest sends. */
function returned(response: NestResponse, answer: ScriptedAnswer): unknown {
  const { status, body } = answer;
  response.status(status);
  for (const [name, values] of headersOf(answer)) response.header(name, values);
  const contentType = headerOf(answer, "content-type");
  const options = contentType === undefined ? {} : { type: contentType };
  switch (body.kind) {
    case "json":
      return body.value;
    case "text":
      return body.text;
    case "bytes":
      return new StreamableFile(Buffer.from(body.bytes), options);
    case "stream":
      return new StreamableFile(Readable.from(body.chunks, { objectMode: false }), options);
    default:
      return undefined;
  }
}

/** A controller with one handler. Its decorators are called by hand, since the test runner does not compile decorators. */
function controllerOf(handler: Handler, path: string, isPassedThrough: boolean): Type<unknown> {
  class Orders {}
  const all = { value: handler, writable: true, configurable: true };
  Object.defineProperty(Orders.prototype, "all", all);
  All(path)(Orders.prototype, "all", all);
  Req()(Orders.prototype, "all", 0);
  Res({ passthrough: isPassedThrough })(Orders.prototype, "all", 1);
  IdempotencyAttempt()(Orders.prototype, "all", 2);
  Controller()(Orders);
  return Orders;
}

class AppModule {}
Module({})(AppModule);

function moduleOf({ layer }: ScriptedApp<NestRequest>, controller: Type<unknown>): DynamicModule {
  const imports = layer === undefined ? [] : [idempotency(layer.guard, layer.options)];
  return { module: AppModule, imports, controllers: [controller] };
}

async function started(app: INestApplication): Promise<{ server: Server; stop(): Promise<void> }> {
  await app.listen(0, "127.0.0.1");
  return { server: app.getHttpServer(), stop: () => app.close() };
}

const QUIET = { logger: false, forceCloseConnections: true } as const;

const LACKS = {
  "parser-after": "Nest parses before its interceptors",
} as const;

const RETURNS = {
  ...LACKS,
  written: "a handler that returns its answer writes nothing",
  flush: "a handler that returns its answer writes nothing",
  trailers: "a handler that returns its answer writes nothing",
  reason: "a handler that returns its answer gives no reason phrase",
} as const;

const header = ({ headers }: NestRequest, name: string): string | undefined =>
  [headers[name] ?? []].flat().join(", ") || undefined;

type Answering = (response: never, answer: ScriptedAnswer) => unknown;

/** Where the handler's parameter is `@Res()` alone, Nest leaves the answer to the handler. */
function onExpress(answering: Answering, isPassedThrough: boolean): AdapterHarness<NestRequest> {
  return {
    lacks: isPassedThrough ? RETURNS : LACKS,
    header,
    async serve(app) {
      const handler: Handler = async (request, response, attempt) =>
        answering(response, await answerTo(app, request, attempt));
      const module = moduleOf(app, controllerOf(handler, app.route ?? "*path", isPassedThrough));
      return started(await NestFactory.create(module, { ...QUIET, bodyParser: app.parser === "before" }));
    },
  };
}

export const nestExpressHarness = onExpress(returned, true);
export const nestResponseHarness = onExpress(answerBy, false);

export const nestFastifyHarness: AdapterHarness<NestRequest> = {
  lacks: RETURNS,
  header,
  async serve(app) {
    const handler: Handler = async (request, response, attempt) =>
      returned(response, await answerTo(app, request, attempt));
    const adapter = new FastifyAdapter({
      forceCloseConnections: true,
      routerOptions: { caseSensitive: false, ignoreTrailingSlash: true },
    });
    const bodyParser = app.parser === "before";
    if (!bodyParser) {
      const fastify = adapter.getInstance();
      fastify.removeAllContentTypeParsers();
      fastify.addContentTypeParser("*", (_request, payload, done) => done(null, payload));
    }
    const module = moduleOf(app, controllerOf(handler, app.route ?? "*", true));
    return started(await NestFactory.create(module, adapter, { ...QUIET, bodyParser }));
  },
};
