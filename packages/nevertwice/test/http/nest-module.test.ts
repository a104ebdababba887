/**
 * How a Nest app gets the layer: with options from a factory, by the interceptor's class, on both platforms at once, and
 * closed with the app. Decorators are called by hand, since the test runner does not compile them.
 */
import "reflect-metadata";
import {
  type ClassProvider,
  Controller,
  type FactoryProvider,
  type INestApplication,
  type InjectionToken,
  Module,
  type ModuleMetadata,
  Post,
  UseInterceptors,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import {
  IdempotencyInterceptor,
  IdempotencyModule,
  Idempotent,
  idempotency,
  type NestIdempotency,
} from "../../src/http/nest.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { REPLAYED } from "./replayed-header.ts";

const ANYONE = { scope: "anyone" } as const;
const QUIET = { logger: false, forceCloseConnections: true, abortOnError: false } as const;

let guard: Guard;
const apps: INestApplication[] = [];
beforeEach(() => {
  guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
});
afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
  await guard.close();
});

/** A controller whose handlers answer with the number of their run. */
function runCounter(
  paths: readonly string[],
  on: readonly (ClassDecorator & MethodDecorator)[] = [],
  onHandler: readonly MethodDecorator[] = [],
) {
  class Counter {}
  for (const path of paths) {
    let runs = 0;
    const method = { value: () => `${path} ${++runs}`, writable: true, configurable: true };
    Object.defineProperty(Counter.prototype, path, method);
    for (const decorate of [Post(path), ...onHandler]) decorate(Counter.prototype, path, method as never);
  }
  for (const decorate of on) decorate(Counter);
  Controller()(Counter);
  return Counter;
}

function moduleWith(metadata: ModuleMetadata) {
  class Made {}
  Module(metadata)(Made);
  return Made;
}

const PLATFORMS = {
  express: () => new ExpressAdapter(),
  fastify: () => new FastifyAdapter(),
};

async function started(module: object, platform: () => ExpressAdapter | FastifyAdapter) {
  const app = await NestFactory.create(module as never, platform() as never, QUIET);
  apps.push(app);
  await app.listen(0, "127.0.0.1");
  const url = await app.getUrl();
  const send = async (path: string, key = "k") => {
    const headers = { "idempotency-key": `"${key}"` };
    const response = await fetch(`${url}/${path}`, { method: "POST", headers });
    return { status: response.status, replayed: response.headers.get(REPLAYED), text: await response.text() };
  };
  return { app, send };
}

const RAN = { status: 201, replayed: null, text: "charge 1" };
const REPLAYED_RUN = { ...RAN, replayed: "true" };

describe.each(Object.entries(PLATFORMS))("on %s", (_, platform) => {
  /** A module that provides the guard, like a database module of an application. */
  const GuardModule = moduleWith({
    providers: [{ provide: "GUARD", useFactory: async () => guard }],
    exports: ["GUARD"],
  });

  class Configured {
    createIdempotencyOptions(): NestIdempotency {
      return { ...ANYONE, guard };
    }
  }

  test.each<[string, () => Parameters<typeof IdempotencyModule.forRootAsync>[0]]>([
    [
      "a factory",
      () => ({
        imports: [GuardModule],
        inject: ["GUARD"],
        useFactory: async (given: Guard) => ({ guard: given, ...ANYONE }),
      }),
    ],
    ["a class", () => ({ useClass: Configured })],
  ])("forRootAsync takes its options from %s", async (_kind, options) => {
    const Counter = runCounter(["charge"]);
    const App = moduleWith({ imports: [IdempotencyModule.forRootAsync(options())], controllers: [Counter] });
    const { send } = await started(App, platform);
    expect([await send("charge"), await send("charge")]).toEqual([RAN, REPLAYED_RUN]);
  });

  test("forRootAsync with a mistake in its options does not start", async () => {
    const useFactory = () => ({ guard }) as unknown as NestIdempotency;
    const App = moduleWith({ imports: [IdempotencyModule.forRootAsync({ useFactory })] });
    await expect(started(App, platform)).rejects.toThrow("scope is missing");
  });

  test("the class of the interceptor protects one controller or one handler, in any module", async () => {
    const use = UseInterceptors(IdempotencyInterceptor);
    const Orders = moduleWith({ controllers: [runCounter(["charge"], [use])] });
    const Refunds = moduleWith({
      controllers: [
        runCounter(["refund"], [], [use]),
        runCounter(["named"], [use], [Idempotent({ operation: "named" })]),
      ],
    });
    const layer = idempotency(guard, { ...ANYONE, everyRoute: false });
    const App = moduleWith({ imports: [Orders, Refunds, layer], controllers: [runCounter(["plain"])] });
    const { send } = await started(App, platform);
    const texts: Record<string, string[]> = {};
    for (const path of ["charge", "refund", "named", "plain"]) {
      texts[path] = [(await send(path)).text, (await send(path)).text];
    }
    expect(texts).toEqual({
      charge: ["charge 1", "charge 1"],
      refund: ["refund 1", "refund 1"],
      named: ["named 1", "named 1"],
      plain: ["plain 1", "plain 2"],
    });
    const about = await guard.read({ operation: "named", key: "k" });
    expect(about?.state).toBe("completed");
  });

  test("the class of the interceptor runs a handler once if every route is protected, too", async () => {
    const use = UseInterceptors(IdempotencyInterceptor);
    const App = moduleWith({
      imports: [idempotency(guard, ANYONE)],
      controllers: [runCounter(["charge"], [use])],
    });
    const { send } = await started(App, platform);
    expect([await send("charge"), await send("charge")]).toEqual([RAN, REPLAYED_RUN]);
  });

  test("each feature module may import the layer with options of its own", async () => {
    const use = UseInterceptors(IdempotencyInterceptor);
    const features = ["charge", "refund"].map((path) =>
      moduleWith({
        imports: [idempotency(guard, { ...ANYONE, everyRoute: false, operation: `of ${path}` })],
        controllers: [runCounter([path], [use])],
      }),
    );
    const { send } = await started(moduleWith({ imports: features }), platform);
    await send("charge");
    await send("refund");
    for (const operation of ["of charge", "of refund"]) {
      expect((await guard.read({ operation, key: "k" }))?.state).toBe("completed");
    }
  });

  test("the class of the interceptor without the module says which provider is missing", async () => {
    const App = moduleWith({
      controllers: [runCounter(["charge"], [UseInterceptors(IdempotencyInterceptor)])],
    });
    await expect(started(App, platform)).rejects.toThrow("IDEMPOTENCY_GUARD");
  });

  test("the end of the app closes the guard, after the requests that are running", async () => {
    let answer: (() => void) | undefined;
    const Slow = runCounter([]);
    const value = () =>
      new Promise((resolve) => {
        answer = () => resolve("charge 1");
      });
    const method = { value, writable: true, configurable: true };
    Object.defineProperty(Slow.prototype, "charge", method);
    Post("charge")(Slow.prototype, "charge", method as never);
    const App = moduleWith({ imports: [idempotency(guard, ANYONE)], controllers: [Slow] });
    const { app, send } = await started(App, platform);
    const sent = send("charge");
    await expect.poll(() => answer).toBeDefined();
    apps.splice(0);
    const closing = app.close();
    answer?.();
    expect(await sent).toEqual(RAN);
    await closing;
    await expect(guard.purge()).rejects.toMatchObject({ code: "guard-closed" });
  });

  test("closeGuard: false leaves the guard open", async () => {
    const App = moduleWith({ imports: [idempotency(guard, { ...ANYONE, closeGuard: false })] });
    const { app } = await started(App, platform);
    apps.splice(0);
    await app.close();
    expect(await guard.purge()).toBe(0);
  });
});

test("one module serves both platforms in one process, and the guard closes with the last app", async () => {
  const Counter = runCounter(["charge", "refund"]);
  const App = moduleWith({ imports: [idempotency(guard, ANYONE)], controllers: [Counter] });
  const express = await started(App, PLATFORMS.express);
  const fastify = await started(App, PLATFORMS.fastify);
  expect(await express.send("charge")).toEqual(RAN);
  expect(await fastify.send("charge")).toEqual(REPLAYED_RUN);
  expect(await fastify.send("refund")).toMatchObject({ status: 201, text: "refund 1" });
  expect(await express.send("refund")).toMatchObject({ replayed: "true", text: "refund 1" });

  apps.splice(0);
  await express.app.close();
  expect(await fastify.send("charge", "another")).toMatchObject({ status: 201, text: "charge 2" });
  await fastify.app.close();
  await expect(guard.purge()).rejects.toMatchObject({ code: "guard-closed" });
});

test("its types are Nest's own", () => {
  type Async = Parameters<typeof IdempotencyModule.forRootAsync>[0];
  expectTypeOf<Async["inject"]>().toEqualTypeOf<FactoryProvider["inject"]>();
  expectTypeOf<InjectionToken>().toExtend<ClassProvider["provide"]>();
  // @ts-expect-error: the guard is missing.
  IdempotencyModule.forRootAsync({ useFactory: () => ({ scope: "anyone" }) });
});
