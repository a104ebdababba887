/**
 * The Nest adapter, on Express and on Fastify over real sockets. The tests call decorators as a compiler would, since the
 * test runner does not compile them.
 */
import "reflect-metadata";
import { Readable } from "node:stream";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  type CallHandler,
  Catch,
  Controller,
  type ExecutionContext,
  Header,
  HttpCode,
  HttpException,
  type INestApplication,
  Module,
  type NestInterceptor,
  Post,
  Redirect,
  Req,
  Res,
  StreamableFile,
  UseInterceptors,
} from "@nestjs/common";
import { APP_INTERCEPTOR, NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import type { Request as ExpressRequest } from "express";
import { firstValueFrom, Observable, of, Subject, timeout } from "rxjs";
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { current } from "../../src/http/current-replay.ts";
import type { HttpAttempt } from "../../src/http/http-attempt.ts";
import {
  IdempotencyAttempt,
  IdempotencyInterceptor,
  Idempotent,
  idempotency,
  type RouteIdempotency,
} from "../../src/http/nest.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { REPLAYED, REPLAYED_HEADER } from "./replayed-header.ts";

let guard: Guard;
let app: INestApplication | undefined;
beforeEach(() => {
  guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  app = undefined;
});
afterEach(async () => {
  await app?.close();
  await guard.close();
});

const ANYONE = { scope: "anyone" } as const;

interface RouteOf {
  /** In the order of mounting. */
  readonly on?: readonly MethodDecorator[];
  readonly parameters?: readonly ParameterDecorator[];
  readonly handler: (...args: never[]) => unknown;
}
type Routes = Readonly<Record<string, RouteOf>>;

/** Like a compiler for a class with these methods: parameters first, then each method from its last decorator to its first. */
function controller(routes: Routes, on: readonly ClassDecorator[] = [], Base: new () => object = Object) {
  const Made = class extends Base {};
  for (const [name, { on: onMethod = [], parameters = [], handler }] of Object.entries(routes)) {
    const method = { value: handler, writable: true, configurable: true };
    Object.defineProperty(Made.prototype, name, method);
    for (const [i, decorate] of parameters.entries()) decorate(Made.prototype, name, i);
    for (const decorate of onMethod.toReversed()) decorate(Made.prototype, name, method as never);
  }
  for (const decorate of on.toReversed()) decorate(Made);
  Controller()(Made);
  return Made;
}

interface Platform {
  create(): ExpressAdapter | FastifyAdapter;
}
interface Given {
  readonly controllers: readonly (new () => object)[];
  readonly options?: object;
  readonly rawBody?: boolean;
  /** An interceptor around ours. */
  readonly outer?: NestInterceptor;
  configure?(nest: INestApplication): void;
}
interface Sent {
  readonly path?: string;
  readonly method?: string;
  readonly key?: string | null;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}
type Send = (sent?: Sent) => Promise<Response>;

async function open(
  platform: Platform,
  { controllers, options, rawBody = false, outer, configure }: Given,
): Promise<Send> {
  class App {}
  Module({
    imports: [idempotency(guard, { ...ANYONE, ...options })],
    controllers: [...controllers],
    providers: outer === undefined ? [] : [{ provide: APP_INTERCEPTOR, useValue: outer }],
  })(App);
  const made = await NestFactory.create(App, platform.create() as never, { logger: false, rawBody });
  app = made;
  configure?.(made);
  await made.listen(0, "127.0.0.1");
  const url = await made.getUrl();
  return ({ path = "/charge", method = "POST", key = "k", headers, body = '{"amount":1}', signal } = {}) =>
    fetch(url + path, {
      method,
      redirect: "manual",
      headers: {
        "content-type": "application/json",
        ...(key !== null && { "idempotency-key": `"${key}"` }),
        ...headers,
      },
      ...(method !== "GET" && { body }),
      signal: signal ?? null,
    });
}

const replayedOf = ({ headers }: Response) => headers.get(REPLAYED);

const EXPRESS: Platform = { create: () => new ExpressAdapter() };
const FASTIFY: Platform = { create: () => new FastifyAdapter({ forceCloseConnections: true }) };
const REDIRECTED = "See Other. Redirecting to /done";

describe.each([
  ["Express", EXPRESS],
  ["Fastify", FASTIFY],
])("on %s, a handler", (_, platform) => {
  test("IK-01, IK-02 runs once, and its response is replayed", async () => {
    let runs = 0;
    const attempts: (HttpAttempt | undefined)[] = [];
    const Charges = controller({
      charge: {
        on: [Post("charge"), HttpCode(202), Header("Location", "/charges/1")],
        parameters: [Req(), IdempotencyAttempt()],
        handler: (
          request: { body: unknown; idempotency?: HttpAttempt },
          attempt: HttpAttempt | undefined,
        ) => {
          attempts.push(attempt, request.idempotency);
          return { run: ++runs, body: request.body };
        },
      },
    });
    const send = await open(platform, { controllers: [Charges] });
    const first = await send();
    const again = await send();
    for (const response of [first, again]) {
      expect([response.status, await response.json()]).toEqual([202, { run: 1, body: { amount: 1 } }]);
      expect(response.headers.get("location")).toBe("/charges/1");
      expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
    }
    expect([replayedOf(first), replayedOf(again)]).toEqual([null, "true"]);
    expect(attempts).toEqual([expect.objectContaining({ key: "k", operation: "POST /charge" }), attempts[0]]);
  });

  test("IK-17 releases the key after an exception that a filter turns into a failure, and sends that failure", async () => {
    let runs = 0;
    class Teapots {
      catch(error: Error, host: ExecutionContext) {
        const response = host.switchToHttp().getResponse();
        response.status(Number(error.message)).send(`filtered ${error.message}`);
      }
    }
    Catch(RangeError)(Teapots);
    const Charges = controller({
      charge: {
        on: [Post("charge")],
        handler: () => {
          if (++runs === 1) throw new Error("unknown");
          if (runs === 2) throw new RangeError("503");
          if (runs === 3) throw new HttpException({ no: "money" }, 402);
        },
      },
    });
    const configure = (nest: INestApplication) => nest.useGlobalFilters(new Teapots());
    const send = await open(platform, { controllers: [Charges], configure });
    const texts: unknown[] = [];
    for (let i = 0; i < 4; i++) {
      const response = await send();
      texts.push([response.status, await response.text()]);
    }
    expect(texts).toEqual([
      [500, '{"statusCode":500,"message":"Internal server error"}'],
      [503, "filtered 503"],
      [402, '{"no":"money"}'],
      [402, '{"no":"money"}'],
    ]);
    expect(runs).toBe(3);
  });

  test.each([
    ["nothing", {}, () => undefined, 201, ""],
    ["text", {}, () => "grüße", 201, "grüße"],
    ["a file", {}, () => new StreamableFile(Buffer.from([0xff, 0, 1])), 201, [0xff, 0, 1]],
    ["a file that is read", {}, () => new StreamableFile(Readable.from(["ab", "cd"])), 201, "abcd"],
    ["an observable", {}, () => of(1, { last: true }), 201, '{"last":true}'],
    ["204", { on: HttpCode(204) }, () => undefined, 204, ""],
    [
      "a redirect",
      { on: Redirect("/done", 303) },
      () => undefined,
      303,
      platform === EXPRESS ? REDIRECTED : "",
    ],
    ["its own response", { of: Res() }, (res: { send(body: string): void }) => res.send("own"), 201, "own"],
    [
      "a response passed through",
      { of: Res({ passthrough: true }) },
      (res: { header(name: string, value: string): void }) => {
        res.header("content-language", "en");
        return "through";
      },
      201,
      "through",
    ],
  ] as const)("RP-06 that answers with %s does so to the byte, at first and again", async (...given) => {
    const [, how, answer, status, expected] = given as unknown as [
      string,
      { on?: MethodDecorator; of?: ParameterDecorator },
      (...args: never[]) => unknown,
      number,
      string | number[],
    ];
    let runs = 0;
    const Charges = controller({
      charge: {
        on: [Post("charge"), ...(how.on ? [how.on] : [])],
        parameters: how.of ? [how.of] : [],
        handler: (...args) => {
          runs++;
          return answer(...args);
        },
      },
    });
    const send = await open(platform, { controllers: [Charges] });
    const [first, again] = [await send(), await send()];
    for (const response of [first, again]) {
      expect([response.status, Buffer.from(await response.arrayBuffer())]).toEqual([
        status,
        Buffer.from(expected as string),
      ]);
      for (const name of ["content-type", "location", "content-language"])
        expect(response.headers.get(name)).toBe(first.headers.get(name));
    }
    expect([replayedOf(first), replayedOf(again), runs]).toEqual([null, "true", 1]);
  });

  test("overrides the options of its controller, which override those of the app", async () => {
    const handler = (attempt: HttpAttempt | undefined) => ({ of: attempt?.operation });
    const route = (...on: MethodDecorator[]): RouteOf => ({
      on,
      parameters: [IdempotencyAttempt()],
      handler,
    });
    // Each route needs its own function, like the methods of a class.
    const own = (made: RouteOf): RouteOf => ({
      ...made,
      handler: (attempt: HttpAttempt) => handler(attempt),
    });
    const Marked = controller(
      {
        a: own(route(Post("a"))),
        b: own(route(Post("b"), Idempotent({ operation: "of the handler" }))),
        c: own(route(Post("c"), Idempotent(false))),
      },
      [Idempotent({ operation: "of the controller", required: true })],
    );
    const Base = class {};
    Idempotent({ operation: "of the base" })(Base);
    const Heir = controller({ f: own(route(Post("f"))) }, [], Base);
    const Off = controller({ d: own(route(Post("d"))), e: own(route(Post("e"), Idempotent())) }, [
      Idempotent(false),
    ]);
    const Plain = controller({ g: own(route(Post("g"))) });
    const send = await open(platform, { controllers: [Marked, Heir, Off, Plain] });
    const operations: Record<string, unknown> = {};
    for (const path of ["a", "b", "c", "d", "e", "f", "g"]) {
      operations[path] = ((await (await send({ path: `/${path}` })).json()) as { of?: string }).of;
    }
    expect(operations).toEqual({
      a: "of the controller",
      b: "of the handler",
      c: undefined,
      d: undefined,
      e: "POST /e",
      f: "of the base",
      g: "POST /g",
    });
    const missing = await Promise.all(
      ["a", "b", "c", "g"].map((path) => send({ path: `/${path}`, key: null })),
    );
    expect(missing.map(({ status }) => status)).toEqual([400, 400, 201, 201]);
  });

  test("can have its own interceptor, even if the app has one", async () => {
    const alone = new IdempotencyInterceptor(guard, { ...ANYONE, operation: "alone" });
    let runs = 0;
    const Charges = controller({
      charge: {
        on: [Post("charge"), UseInterceptors(alone)],
        parameters: [IdempotencyAttempt()],
        handler: (attempt: HttpAttempt) => ({ run: ++runs, of: attempt.operation }),
      },
    });
    const send = await open(platform, { controllers: [Charges] });
    for (const response of [await send(), await send()]) {
      expect([response.status, await response.json()]).toEqual([201, { run: 1, of: "POST /charge" }]);
    }
  });

  test("SC-01 belongs to the user that a guard has authenticated", async () => {
    const Charges = controller({ charge: { on: [Post("charge")], handler: () => "ok" } });
    const send = await open(platform, {
      controllers: [Charges],
      options: { scope: (request: { user?: string }) => request.user },
      configure: (nest) =>
        nest.useGlobalGuards({
          canActivate(context) {
            const request = context.switchToHttp().getRequest();
            request.user = request.headers["x-user"];
            return request.user !== "mallory";
          },
        }),
    });
    const answers = await Promise.all(
      ["ada", "bob", "mallory", ""].map((user) => send({ headers: user === "" ? {} : { "x-user": user } })),
    );
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 403, 500]);
    expect(await guard.read({ operation: "POST /charge", scope: "ada", key: "k" })).toMatchObject({
      state: "completed",
    });
  });

  test("is not run if a function in the options rejects, even with undefined", async () => {
    let runs = 0;
    const Charges = controller({ charge: { on: [Post("charge")], handler: () => ({ run: ++runs }) } });
    const scope = ({ headers }: { headers: Record<string, string> }) =>
      Promise.reject(headers["x-none"] ? null : new Error("who?"));
    const send = await open(platform, { controllers: [Charges], options: { scope } });
    const answers = [await send(), await send({ headers: { "x-none": "1" } })];
    expect(answers.map(({ status }) => status)).toEqual([500, 500]);
    expect(runs).toBe(0);
  });

  test("FP-13 is distinguished from a body with repeated members if raw bodies are kept", async () => {
    const Charges = controller({ charge: { on: [Post("charge")], handler: () => "ok" } });
    const send = await open(platform, { controllers: [Charges], rawBody: true });
    await send();
    expect((await send({ body: '{ "amount": 1.0 }' })).status).toBe(201);
    expect((await send({ body: '{"amount":7,"amount":1}' })).status).toBe(422);
  });

  test("is replayed without outer interceptors changing it, and they end as after any handler", async () => {
    const noted: unknown[] = [];
    const outer = {
      intercept: (_context: ExecutionContext, next: CallHandler): Observable<unknown> =>
        new Observable((listener) => {
          next
            .handle()
            .pipe(timeout(60_000))
            .subscribe({
              next: (data) => listener.next({ data }),
              error(error) {
                noted.push("error");
                listener.error(error);
              },
              complete() {
                noted.push("complete");
                listener.complete();
              },
            });
        }),
    };
    const Charges = controller({ charge: { on: [Post("charge")], handler: () => ({ id: 1 }) } });
    const send = await open(platform, { controllers: [Charges], outer });
    for (const response of [await send(), await send()]) {
      expect([response.status, await response.json()]).toEqual([201, { data: { id: 1 } }]);
    }
    expect((await send({ body: "[]" })).status).toBe(422);
    await expect.poll(() => noted).toEqual(["complete", "complete", "complete"]);
  });

  test("is replayed without an error in exception filters or logs", async () => {
    const reported: unknown[] = [];
    class All {
      catch(error: unknown) {
        reported.push(error);
      }
    }
    Catch()(All);
    const Charges = controller({
      charge: { on: [Post("charge")], handler: () => ({ id: 1 }) },
      text: { on: [Post("text"), Header("content-type", "text/plain")], handler: () => "text" },
      moved: { on: [Post("moved"), Redirect("/done", 303)], handler: () => undefined },
      own: {
        on: [Post("own")],
        parameters: [Res()],
        handler: (res: { send(body: string): void }) => res.send("own"),
      },
    });
    const configure = (nest: INestApplication) => nest.useGlobalFilters(new All());
    const logging = { write: (line: string) => reported.push(line) };
    const quiet: Platform = {
      create: () =>
        platform === EXPRESS
          ? new ExpressAdapter()
          : new FastifyAdapter({ forceCloseConnections: true, logger: { level: "warn", stream: logging } }),
    };
    const send = await open(quiet, { controllers: [Charges], configure });
    for (const path of ["/charge", "/text", "/moved", "/own"]) {
      const [first, again] = [await send({ path }), await send({ path })];
      expect([await again.text(), replayedOf(again)]).toEqual([await first.text(), "true"]);
      expect((await send({ path, body: "[]" })).status).toBe(422);
    }
    expect(reported).toEqual([]);
  });

  test("has the headers that the app sets for every request on replays too", async () => {
    const Charges = controller({ charge: { on: [Post("charge")], handler: () => ({ id: 1 }) } });
    const configure = (nest: INestApplication) =>
      nest.enableCors({ origin: "https://p.example", exposedHeaders: ["X-A"] });
    const send = await open(platform, { controllers: [Charges], configure });
    const headers = { origin: "https://p.example" };
    for (const response of [await send({ headers }), await send({ headers })]) {
      expect(response.headers.get("access-control-allow-origin")).toBe("https://p.example");
      expect(response.headers.get("access-control-expose-headers")).toBe(
        `X-A, ${REPLAYED_HEADER}, Retry-After`,
      );
    }
  });

  /** A handler whose client disconnects while it runs, and which answers when the test says so. */
  async function abandoned(answer: (value: Observable<unknown>) => unknown, options: object = {}) {
    let runs = 0;
    const leaving = new AbortController();
    const answering = new Subject<unknown>();
    const handler = () => {
      runs++;
      setImmediate(() => leaving.abort());
      return answer(answering);
    };
    const Charges = controller({ charge: { on: [Post("charge")], handler } });
    const send = await open(platform, { controllers: [Charges], options });
    await expect(send({ signal: leaving.signal })).rejects.toThrow();
    await expect.poll(async () => (await send()).status).toBe(409);
    // Nest has received the same event by now.
    await new Promise((resolve) => setTimeout(resolve, 50));
    return { send, answering, runs: () => runs };
  }

  test.each([
    ["a promise", (value: Observable<unknown>) => firstValueFrom(value)],
    ["an observable", (value: Observable<unknown>) => value],
  ])(
    "IK-20 that answers with %s continues when its client disconnects, and a retry gets the answer",
    async (_, answer) => {
      const { send, answering, runs } = await abandoned(answer);
      answering.next({ charged: true });
      answering.complete();
      await expect.poll(async () => (await send()).status).toBe(201);
      expect([await (await send()).json(), runs()]).toEqual([{ charged: true }, 1]);
    },
  );

  test("whose client has disconnected and which then fails leaves its key unknown", async () => {
    const { send, answering } = await abandoned((value) => value, { onLapsed: "hold" });
    answering.error(new Error("cut off"));
    await expect.poll(async () => ((await (await send()).json()) as { code: string }).code).toBe("unknown");
  });

  test("whose answer is replaced by another attempt's sends nothing itself, and a failing replay is refused", async () => {
    const clock = manualClock();
    await guard.close();
    guard = createGuard({ store: memoryStore({ clock }), purgeEveryMs: 0 });
    let inner: (() => Promise<unknown>) | undefined;
    const handler = async () => {
      if (inner === undefined) return "theirs";
      const sendOther = inner;
      inner = undefined;
      clock.advance(30_000);
      await sendOther();
      return "ours, which is longer";
    };
    const replay = current<unknown>(() => {
      throw new RangeError("no view");
    });
    const Charges = controller({
      a: { on: [Post("a")], handler: () => handler() },
      b: { on: [Post("b"), Idempotent({ replay })], handler: () => handler() },
    });
    const send = await open(platform, { controllers: [Charges] });
    inner = () => send({ path: "/a" });
    const replaced = await send({ path: "/a" });
    expect([await replaced.text(), replayedOf(replaced)]).toEqual(["theirs", "true"]);
    inner = () => send({ path: "/b" });
    for (const failed of [await send({ path: "/b" }), await send({ path: "/b" })]) {
      expect(failed.status).toBe(500);
    }
  });

  test("keeps no memory after its replays", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const requests: WeakRef<object>[] = [];
    const Charges = controller({ charge: { on: [Post("charge")], handler: () => "ok" } });
    const outer = {
      intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
        requests.push(new WeakRef(context.switchToHttp().getRequest()));
        return next.handle();
      },
    };
    const send = await open(platform, { controllers: [Charges], outer });
    for (let i = 0; i < 100; i++) await (await send()).text();
    await expect
      .poll(() => {
        collect();
        return requests.filter((request) => request.deref() !== undefined).length;
      })
      // The last ones may still be held by their connection.
      .toBeLessThan(10);
  });
});

test("mistakes in options are reported at once", () => {
  expect(() => idempotency(guard, {} as typeof ANYONE)).toThrow("scope is missing");
  expect(() => new IdempotencyInterceptor(guard, {} as typeof ANYONE)).toThrow("scope is missing");
  expect(() => Idempotent({ requird: true } as RouteIdempotency)).toThrow('called "requird"');
});

test("a call that is not an HTTP request is not changed", async () => {
  const interceptor = new IdempotencyInterceptor(guard, ANYONE);
  const handled = of("message");
  const context = { getType: () => "rpc" } as ExecutionContext;
  expect(interceptor.intercept(context, { handle: () => handled })).toBe(handled);
});

test("its types are the app's own", () => {
  idempotency(guard, { scope: (request: ExpressRequest & { user: { id: string } }) => request.user.id });
  idempotency(guard, { scope: (request) => request.user.id });
  expectTypeOf(Idempotent({ required: true })).toExtend<MethodDecorator & ClassDecorator>();
  Idempotent<ExpressRequest>({ operation: ({ path }) => path });
  // @ts-expect-error: there is no such option.
  expect(() => Idempotent({ requird: true })).toThrow();
  expectTypeOf(IdempotencyAttempt()).toEqualTypeOf<ParameterDecorator>();
});
