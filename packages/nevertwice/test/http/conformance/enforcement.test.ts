/** Tests what a key does: the first request runs, duplicates get its answer, and other requests are refused or not changed. */
import { connect } from "node:net";
import express from "express";
import { describe, expect, test } from "vitest";
import { createEngine } from "../../../src/core/engine.ts";
import { idempotency } from "../../../src/http/express.ts";
import { memoryStore } from "../../../src/stores/memory.ts";
import { faultyStore } from "../../../src/testing/faulty-store.ts";
import { REPLAYED } from "../replayed-header.ts";
import { gate, type Handler, listen, notingStore, serve, virtualTime } from "./service.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Answers with this status and the number of the run. */
const answering =
  (status: number): Handler =>
  ({ res, run }) => {
    res.writeHead(status, { "Content-Type": "application/json" });
    res.end(JSON.stringify({ run }));
  };

describe("a key", () => {
  test("IK-01 that is new runs the handler once, and the client gets the handler's answer", async () => {
    const service = await serve();
    const answer = await service.send({ key: "k" });
    expect([answer.status, answer.text]).toEqual([201, '{"order":1,"key":"k"}']);
    expect(answer.header("location")).toBe("/orders/1");
    expect(answer.header(REPLAYED)).toBeUndefined();
    expect(service.runs()).toBe(1);
  });

  test("IK-02 with a stored 201 replays it", async () => {
    const service = await serve();
    const first = await service.send({ key: "k" });
    const second = await service.send({ key: "k" });
    expect([second.status, second.text]).toEqual([201, first.text]);
    expect(second.header("location")).toBe("/orders/1");
    expect(service.runs()).toBe(1);
  });

  test.each([400, 404, 409, 422])("IK-03 with a stored %i of the handler replays it", async (status) => {
    const service = await serve({ handler: answering(status) });
    const answers = [await service.send({ key: "k" }), await service.send({ key: "k" })];
    expect(answers.map((answer) => [answer.status, answer.text, answer.header(REPLAYED)])).toEqual([
      [status, '{"run":1}', undefined],
      [status, '{"run":1}', "true"],
    ]);
    expect(service.runs()).toBe(1);
  });

  test("IK-04 that is required and missing causes a 400 with a link to its explanation", async () => {
    const service = await serve({ options: { required: true } });
    const answer = await service.send();
    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({ code: "key-missing", title: "Idempotency-Key is missing" });
    expect(new URL(answer.json<{ documentation: string }>().documentation).hash).toBe("#key-missing");
    expect(service.runs()).toBe(0);
  });

  test("IK-05 that is optional and missing lets both requests run without a call to the store", async () => {
    const { store, calls } = notingStore(memoryStore());
    const service = await serve({ store });
    const answers = [await service.send(), await service.send()];
    expect(answers.map(({ status, text }) => [status, text])).toEqual([
      [201, '{"order":1}'],
      [201, '{"order":2}'],
    ]);
    expect(calls).toEqual([]);
  });

  test("IK-06 that is sent again with another payload causes a 422, and nothing runs", async () => {
    const service = await serve();
    await service.send({ key: "k", body: { amount: 1 } });
    const answer = await service.send({ key: "k", body: { amount: 2 } });
    expect([answer.status, answer.json().code]).toEqual([422, "conflict"]);
    expect(service.runs()).toBe(1);
  });

  test("IK-07 still replays its answer after another payload was refused", async () => {
    const service = await serve();
    const first = await service.send({ key: "k", body: { amount: 1 } });
    await service.send({ key: "k", body: { amount: 2 } });
    const again = await service.send({ key: "k", body: { amount: 1 } });
    expect([again.status, again.text, again.header(REPLAYED)]).toEqual([201, first.text, "true"]);
    expect(service.runs()).toBe(1);
  });

  test("IK-08 whose first request still runs causes a 409", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const first = service.send({ key: "k" });
    await door.reached();
    const second = await service.send({ key: "k" });
    expect([second.status, second.json().code]).toEqual([409, "pending"]);
    door.open();
    expect((await first).status).toBe(201);
    expect(service.runs()).toBe(1);
  });

  test("IK-09 that caused a 409 replays the answer to the same request when the first one has ended", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const first = service.send({ key: "k" });
    await door.reached();
    expect((await service.send({ key: "k" })).status).toBe(409);
    door.open();
    const { text } = await first;
    const again = await service.send({ key: "k" });
    expect([again.status, again.text, again.header(REPLAYED)]).toEqual([201, text, "true"]);
    expect(service.runs()).toBe(1);
  });

  test("IK-10 is independent of another key: two keys with the same payload are two runs", async () => {
    const service = await serve();
    await service.send({ key: "k1" });
    expect((await service.send({ key: "k2" })).json().order).toBe(2);
    expect(service.runs()).toBe(2);
  });

  test("IK-11 is ignored on GET, HEAD and OPTIONS, which run each time", async () => {
    const { store, calls } = notingStore(memoryStore());
    const service = await serve({ store });
    await service.send({ key: "k" });
    const before = calls.length;
    for (const method of ["GET", "HEAD", "OPTIONS"]) {
      const answer = await service.send({ method, key: "k" });
      expect([answer.status, answer.header(REPLAYED)]).toEqual([201, undefined]);
    }
    expect(calls).toHaveLength(before);
    expect(service.runs()).toBe(4);
  });

  test("IK-12 protects a PATCH like a POST", async () => {
    const service = await serve();
    const first = await service.send({ method: "PATCH", key: "k" });
    const second = await service.send({ method: "PATCH", key: "k" });
    expect([second.status, second.text, second.header(REPLAYED)]).toEqual([201, first.text, "true"]);
    expect(service.runs()).toBe(1);
  });

  test("IK-13 is ignored on PUT and DELETE, unless the option methods names them", async () => {
    const service = await serve();
    for (const method of ["PUT", "DELETE", "PUT", "DELETE"]) await service.send({ method, key: "k" });
    expect(service.runs()).toBe(4);
    const optedIn = await serve({ options: { methods: ["POST", "PUT", "DELETE"] } });
    for (const method of ["PUT", "DELETE", "PUT", "DELETE"]) await optedIn.send({ method, key: "k" });
    expect(optedIn.runs()).toBe(2);
  });

  test("IK-14 that is refused without a problem body gets a Link to its explanation", async () => {
    const door = gate();
    const service = await serve({ options: { profile: "acp", required: true }, handler: waitingAt(door) });
    const running = service.send({ key: "k", body: { amount: 1 } });
    await door.reached();
    const refusals = [
      await service.send(),
      await service.send({ key: "k", body: { amount: 1 } }),
      await service.send({ key: "k", body: { amount: 2 } }),
    ];
    door.open();
    await running;
    expect(refusals.map(({ status }) => status)).toEqual([400, 409, 422]);
    for (const refusal of refusals) {
      expect(refusal.header("content-type")).not.toContain("application/problem+json");
      expect(refusal.header("link")).toMatch(/^<https:\/\/[^>]+>; rel="describedby"/);
    }
  });

  test("IK-16 that does not match the published pattern is refused without a call to the store", async () => {
    const { store, calls } = notingStore(memoryStore());
    const service = await serve({ store, options: { keyPattern: UUID } });
    const answer = await service.send({ key: "order-17" });
    expect([answer.status, answer.json().code]).toEqual([400, "key-invalid"]);
    expect(calls).toEqual([]);
    expect(service.runs()).toBe(0);
    expect((await service.send({ key: "8e03978e-40d5-43e8-bc93-6894a57f9324" })).status).toBe(201);
  });
});

describe("a request that fails", () => {
  test.each([500, 502, 503])("IK-17 with a %i releases its key: the retry runs", async (status) => {
    const service = await serve({ handler: (call) => answering(call.run === 1 ? status : 201)(call) });
    const answers = [await service.send({ key: "k" }), await service.send({ key: "k" })];
    expect(answers.map((answer) => answer.status)).toEqual([status, 201]);
    expect(answers[1]?.header(REPLAYED)).toBeUndefined();
    expect(service.runs()).toBe(2);
  });

  test("IK-18 because its handler throws releases its key: the retry runs", async () => {
    const { guard, runs, send } = await expressShop({
      handler: ({ run }) => {
        if (run === 1) throw new Error("the printer is on fire");
      },
    });
    const failed = await send({ key: "k" });
    expect(failed.status).toBe(500);
    expect((await guard.read({ operation: "POST /orders", key: "k" }))?.state).toBe("released");
    const retried = await send({ key: "k" });
    expect([retried.status, retried.header(REPLAYED)]).toEqual([201, undefined]);
    expect(runs()).toBe(2);
  });

  test.each([
    ["a rate limit", 429],
    ["missing credentials", 401],
    ["a missing permission", 403],
    ["validation", 400],
  ])("IK-19 before its handler, by %s, stores nothing: the same key runs later", async (_, status) => {
    const { send, runs } = await expressShop({
      before: (attempt) => (attempt === 1 ? status : undefined),
    });
    expect((await send({ key: "k" })).status).toBe(status);
    expect(runs()).toBe(0);
    const retried = await send({ key: "k" });
    expect([retried.status, retried.header(REPLAYED)]).toEqual([201, undefined]);
    expect(runs()).toBe(1);
  });

  test.each([401, 403, 408, 425, 429])(
    "IK-19 in the handler with a %d, which means that nothing was done, is not replayed",
    async (status) => {
      const service = await serve({ handler: (call) => answering(call.run === 1 ? status : 201)(call) });
      expect((await service.send({ key: "k" })).status).toBe(status);
      expect((await service.send({ key: "k" })).status).toBe(201);
      expect(service.runs()).toBe(2);
    },
  );

  test("IK-20 because its client disconnected keeps running: the retry gets the answer", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const leaving = new AbortController();
    const first = service.send({ key: "k", signal: leaving.signal });
    await door.reached();
    leaving.abort();
    await expect(first).rejects.toThrow();
    expect((await service.send({ key: "k" })).status).toBe(409);
    door.open();
    await service.happened("completed");
    const retried = await service.send({ key: "k" });
    expect([retried.status, retried.header(REPLAYED)]).toEqual([201, "true"]);
    expect(service.runs()).toBe(1);
  });

  test("IK-20 because its client resets the connection before the answer is written keeps running: the retry gets the answer", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const socket = connect(service.port, "127.0.0.1");
    socket.write("POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n");
    await door.reached();
    socket.resetAndDestroy();
    door.open();
    await service.happened("completed");
    const retried = await service.send({ key: "k", body: "" });
    expect([retried.status, retried.header(REPLAYED)]).toEqual([201, "true"]);
    expect(service.runs()).toBe(1);
  });

  test("IK-21 because its process stopped runs exactly once more after the lease, and the first process changes nothing", async () => {
    const time = virtualTime();
    const shared = memoryStore({ clock: time.clock });
    const lost = faultyStore(shared, { timer: time.timer });
    const door = gate();
    const guard = { leaseMs: 30_000 };
    const first = await serve({ time, guard, store: lost, handler: waitingAt(door) });
    const second = await serve({ time, guard, store: shared });
    const answer = first.send({ key: "k" });
    await door.reached();
    // From here on, no call of the first process reaches the store.
    lost.setRates({ refuse: 1 });
    expect((await second.send({ key: "k" })).status).toBe(409);
    await time.advance(30_000);
    const retries = await Promise.all(Array.from({ length: 10 }, () => second.send({ key: "k" })));
    expect(retries.every(({ status }) => status === 201 || status === 409)).toBe(true);
    expect(second.runs()).toBe(1);
    const settled = await second.send({ key: "k" });
    const kept = await second.guard.read({ operation: "POST /orders", key: "k" });
    // The first process continues, finishes, and reaches the store again.
    lost.setRates({});
    door.open();
    const late = await answer;
    expect([late.status, late.text]).toEqual([201, settled.text]);
    expect(await second.guard.read({ operation: "POST /orders", key: "k" })).toEqual(kept);
    expect([first.runs(), second.runs()]).toEqual([1, 1]);
  });
});

function waitingAt(door: { pass(): Promise<void> }): Handler {
  return async ({ res, run }) => {
    await door.pass();
    res.writeHead(201, { "Content-Type": "application/json" });
    res.end(JSON.stringify({ order: run }));
  };
}

/** An Express application that mounts the layer behind its other checks, as the documentation recommends. */
async function expressShop(parts: {
  readonly handler?: (call: { readonly run: number }) => void;
  /** A status to refuse the request with before the layer sees it. */
  readonly before?: (request: number) => number | undefined;
}) {
  const guard = createEngine({ store: memoryStore(), purgeEveryMs: 0 });
  const app = express();
  let requests = 0;
  let runs = 0;
  app.post(
    "/orders",
    (_req, res, next) => {
      const status = parts.before?.(++requests);
      if (status === undefined) next();
      else res.status(status).json({ refused: true });
    },
    express.json(),
    idempotency(guard, { scope: "anyone" }),
    (_req, res) => {
      runs++;
      parts.handler?.({ run: runs });
      res.status(201).json({ order: runs });
    },
  );
  app.use((_error: unknown, _req: unknown, res: express.Response, _next: unknown) => {
    res.status(500).json({ failed: true });
  });
  return { ...(await listen(app)), guard, runs: () => runs };
}
