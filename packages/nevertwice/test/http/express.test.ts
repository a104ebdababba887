import { AsyncLocalStorage } from "node:async_hooks";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import express, { type Express, type NextFunction, type Request, type Response } from "express";
import { describe, expect, expectTypeOf, it, onTestFinished } from "vitest";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { type ExpressRequest, idempotency } from "../../src/http/express.ts";
import type { HttpAttempt } from "../../src/http/http-attempt.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { deferred } from "../deferred.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { REPLAYED_HEADER } from "./replayed-header.ts";
import { exchange, listen, open, parsed, requestText } from "./wire.ts";

// The alias has no types. The members that are used here are the same.
const express4 = (await import("express4" as string)).default as typeof express;

function guarded(): Guard {
  const guard = createGuard({ store: memoryStore(), drainMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

const layer = () => idempotency(guarded(), { scope: "anyone" });

const JSON_KEY = { "Idempotency-Key": '"key-1"', "Content-Type": "application/json" };
const KEYED = requestText('{"item":"book"}', JSON_KEY);

describe.each([
  ["Express 5", express],
  ["Express 4", express4],
])("%s", (name, framework) => {
  /** Two answers to the same request, and how often the handler ran. */
  async function twice(app: Express, request = KEYED) {
    const port = await listen(app);
    const first = parsed(await exchange(port, request));
    const second = parsed(await exchange(port, request));
    return { first, second, isReplay: second.headers.includes(`${REPLAYED_HEADER}: true`) };
  }

  it("protects a whole app, and distinguishes the paths of its routers", async () => {
    const seen: unknown[] = [];
    const app = framework();
    app.use(layer());
    const router = framework.Router();
    router.post("/:id", (req: Request, res: Response) => {
      seen.push(req.idempotency?.operation);
      res.send("ok");
    });
    app.use("/orders", router);
    const port = await listen(app);
    for (const path of ["/orders/1", "/orders/2", "/orders/1"]) {
      await exchange(port, requestText("", JSON_KEY, `POST ${path} HTTP/1.1`));
    }
    expect(seen).toEqual(["POST /orders/1", "POST /orders/2"]);
  });

  it("acts as one layer if it is mounted on the app and on the route", async () => {
    const app = framework();
    const mounted = layer();
    app.use(mounted);
    app.post("/orders", mounted, (_req: Request, res: Response) => void res.send("made"));
    const { first, second, isReplay } = await twice(app);
    expect([first.line, second.body, isReplay]).toEqual(["HTTP/1.1 200 OK", "made", true]);
  });

  it("passes a request without a key unchanged", async () => {
    let runs = 0;
    const app = framework();
    app.post("/orders", layer(), (req: Request, res: Response) => {
      runs++;
      res.json({ has: req.idempotency !== undefined, own: Object.hasOwn(res, "end") });
    });
    const { second } = await twice(app, requestText("{}"));
    expect([second.body, runs]).toEqual(['{"has":false,"own":false}', 2]);
  });

  it("sends what the bare app sends, in every way of sending", async () => {
    const folder = await scratchFolder();
    await writeFile(join(folder, "file.txt"), "x".repeat(100_000));
    const file = join(folder, "file.txt");
    const ways: Record<string, (res: Response) => unknown> = {
      json: (res) => res.status(201).json({ a: 1 }),
      cookies: (res) => res.cookie("a", "1").cookie("b", "2").send("text"),
      sendFile: (res) => res.sendFile(file),
      download: (res) => res.download(file),
      redirect: (res) => res.redirect("/elsewhere"),
      format: (res) => res.format({ json: () => res.json({ a: 1 }), default: () => res.send("a") }),
      raw: (res) => res.writeHead(200, { "X-One": "1" }).end("raw"),
      fails: () => {
        throw Object.assign(new Error("no"), { status: 409 });
      },
    };
    const appWith = (isGuarded: boolean) => {
      const app = framework();
      app.set("env", "test");
      if (isGuarded) app.use(layer());
      app.post("/:way", (req: Request, res: Response) => void ways[req.params.way as string]?.(res));
      return listen(app);
    };
    const [bare, guardedApp] = await Promise.all([appWith(false), appWith(true)]);
    for (const way of Object.keys(ways)) {
      const request = requestText("", JSON_KEY, `POST /${way} HTTP/1.1`);
      expect(parsed(await exchange(guardedApp, request)), way).toEqual(parsed(await exchange(bare, request)));
    }
  });

  it("RP-08 replays only the head of a file that is too long to keep", async () => {
    let runs = 0;
    const folder = await scratchFolder();
    await writeFile(join(folder, "file.bin"), Buffer.alloc(300_000, 7));
    const app = framework();
    const options = { scope: "anyone", maxOutcomeBytes: 10_000, onNotKept: "status" } as const;
    app.post("/orders", idempotency(guarded(), options), (_req: Request, res: Response) => {
      runs++;
      res.sendFile(join(folder, "file.bin"));
    });
    const { first, second } = await twice(app);
    expect(first.body).toHaveLength(300_000);
    expect(second).toMatchObject({ line: "HTTP/1.1 200 OK", body: "" });
    expect(second.headers).toContain("nevertwice-outcome: not-kept");
    expect(runs).toBe(1);
  });

  it("IK-17 releases the key if an error handler answers 500, and keeps its 402", async () => {
    for (const [status, expected] of [
      [500, 2],
      [402, 1],
    ] as const) {
      let runs = 0;
      const app = framework();
      app.post("/orders", layer(), () => {
        runs++;
        throw new Error("thrown at once");
      });
      app.use((error: Error, _req: Request, res: Response, _next: NextFunction) => {
        res.status(status).json({ message: error.message });
      });
      const { second } = await twice(app);
      expect([second.body, runs]).toEqual(['{"message":"thrown at once"}', expected]);
    }
  });

  it("releases the key of a handler that calls notDone, whatever an error handler answers", async () => {
    let runs = 0;
    const app = framework();
    app.post("/orders", layer(), (req: Request, res: Response, next: NextFunction) => {
      if (++runs > 1) res.send("done");
      else next(req.idempotency?.notDone(new Error("the card was not even asked")));
    });
    app.use((_error: unknown, _req: Request, res: Response, _next: NextFunction) => {
      res.status(400).send("try again");
    });
    const { first, second, isReplay } = await twice(app);
    expect([first.body, second.body, isReplay]).toEqual(["try again", "done", false]);
  });

  it.each([
    ["an error", new Error("who is this?"), "who is this?"],
    ["nothing", undefined, "rejected without a reason"],
  ])("passes on errors of the functions in the options: %s", async (_name, thrown, message) => {
    const app = framework();
    const scope = () => Promise.reject(thrown);
    app.post("/orders", idempotency(guarded(), { scope }), (_req: Request, res: Response) => {
      res.send("never");
    });
    app.use((error: Error, _req: Request, res: Response, _next: NextFunction) => {
      res.status(401).send(error.message);
    });
    const { first } = await twice(app);
    expect(first).toMatchObject({ line: "HTTP/1.1 401 Unauthorized", body: message });
  });

  it("says what to do about a body that was already read, and stores nothing", async () => {
    const app = framework();
    app.use(async (req: Request, _res: Response, next: NextFunction) => {
      for await (const _ of req);
      next();
    });
    app.post("/orders", layer(), (_req: Request, res: Response) => void res.send("never"));
    const { first } = await twice(app);
    expect(first.line).toMatch(/ 500 /);
    expect(JSON.parse(first.body)).toMatchObject({ code: "options-invalid" });
  });

  it("IK-20 keeps the answer of a client that disconnected, also if it is a file", async () => {
    const file = join(await scratchFolder(), "file.txt");
    await writeFile(file, "the file");
    let runs = 0;
    const started = deferred();
    const left = deferred();
    const app = framework();
    app.post("/orders", layer(), async (req: Request, res: Response) => {
      runs++;
      req.socket.on("close", () => left.resolve());
      started.resolve();
      await left.promise;
      await turn();
      res.status(201).sendFile(file);
    });
    const port = await listen(app);
    const wire = await open(port);
    wire.send(KEYED);
    await started.promise;
    wire.socket.destroy();
    await left.promise;
    await expect
      .poll(async () => parsed(await exchange(port, KEYED)))
      .toMatchObject({ line: "HTTP/1.1 201 Created", body: "the file" });
    expect(runs).toBe(1);
  });

  it("keeps the async context of a request", async () => {
    const storage = new AsyncLocalStorage<string>();
    const app = framework();
    app.use((_req: Request, _res: Response, next: NextFunction) => storage.run("mine", next));
    app.post("/orders", layer(), (_req: Request, res: Response) => void res.send(storage.getStore()));
    expect((await twice(app)).first.body).toBe("mine");
  });

  it("keeps the headers of outer layers on every answer", async () => {
    const app = framework();
    app.use((_req: Request, res: Response, next: NextFunction) => {
      res.set("X-Outer", "1").set("Access-Control-Expose-Headers", "X-Outer").set("Cache-Control", "public");
      next();
    });
    app.post("/orders", layer(), (_req: Request, res: Response) => void res.send("ok"));
    const request = requestText("{}", { ...JSON_KEY, Origin: "https://a.example" });
    const { first, second } = await twice(app, request);
    for (const { headers } of [first, second]) {
      expect(headers).toContain("X-Outer: 1");
      expect(headers.filter((line) => /^access-control-expose/i.test(line))).toEqual([
        "Access-Control-Expose-Headers: X-Outer",
        `Access-Control-Expose-Headers: ${REPLAYED_HEADER}, Retry-After`,
      ]);
    }
    expect(second.headers.filter((line) => /^cache-control/i.test(line))).toEqual([
      "cache-control: no-store",
    ]);
  });

  it("sends nothing twice if a handler answers and then throws", async () => {
    let runs = 0;
    const app = framework();
    app.set("env", "test");
    app.post("/orders", layer(), (_req: Request, res: Response) => {
      runs++;
      res.status(201).json({ runs });
      throw new Error(`too late for ${name}`);
    });
    const port = await listen(app);
    await exchange(port, KEYED);
    const second = parsed(await exchange(port, KEYED));
    expect([second.line, second.body, runs]).toEqual(["HTTP/1.1 201 Created", '{"runs":1}', 1]);
  });
});

it("is typed as the app's own middleware, with the app's own request", () => {
  type WithUser = Request & { user: { readonly id: string } };
  const app = express();
  const guard = guarded();
  app.use(idempotency(guard, { scope: (req) => req.get("x-user") }));
  app.post("/x", idempotency(guard, { scope: (req) => req.headers.authorization }), (req, res) => {
    expectTypeOf(req.idempotency).toEqualTypeOf<HttpAttempt | undefined>();
    res.json(req.idempotency?.deriveKey("psp"));
  });
  app.post(
    "/orders/:id",
    idempotency(guard, { scope: "anyone", operation: (req) => `order ${req.params.id}` }),
    (req, res) => void res.json(req.params.id),
  );
  app.post(
    "/y",
    idempotency(guard, { scope: (req: WithUser) => req.user.id }),
    (_req, res) => void res.end(),
  );
  app.post("/z", idempotency(guard, { scope: (req: Request) => req.ip }), (_req, res) => void res.end());
  const router = express.Router();
  router.patch("/:id", idempotency<WithUser>(guard, { scope: (req) => req.user.id }));
  expectTypeOf<ExpressRequest>().toExtend<Express.Request>();
  // @ts-expect-error: a scope names its owner by text.
  expect(() => idempotency(guard, { scope: 7 })).toThrow(/options-invalid: scope must be/);
});
