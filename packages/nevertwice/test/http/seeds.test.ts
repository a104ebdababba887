/**
 * What idempo's middleware can do, row by row of the list of capabilities, over HTTP. What it does with its store alone
 * is shown with the stores.
 */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { request } from "node:http";
import { connect } from "node:net";
import express from "express";
import { describe, expect, test } from "vitest";
import { createEngine } from "../../src/core/engine.ts";
import { ERROR_CODES } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import { idempotency } from "../../src/http/express.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import {
  type Gate,
  gate,
  type Handler,
  listen,
  notingStore,
  type Received,
  received,
  serve,
  virtualTime,
} from "./conformance/service.ts";

const MIB = 1_048_576;
const SUBJECT = { operation: "POST /orders", key: "k" };
const isReplayed = (answer: Received) => answer.header("idempotent-replayed") === "true";

function waitingAt(door: Gate, status = 201): Handler {
  return async ({ res, run }) => {
    await door.pass();
    res.writeHead(status).end(`order ${run}`);
  };
}

const failingOnce: Handler = ({ res, run }) => res.writeHead(run === 1 ? 500 : 201).end(`order ${run}`);

describe("keys", () => {
  test("idempo: the caller names the request, in a header", async () => {
    const service = await serve();
    const answers = [
      await service.send({ key: "a" }),
      await service.send({ key: "b" }),
      await service.send({ key: "a" }),
    ];
    expect(answers.map((answer) => answer.json().order)).toEqual([1, 2, 1]);
  });

  test("idempo: a key belongs to one method and path", async () => {
    const service = await serve();
    for (const [method, path] of [
      ["POST", "/a"],
      ["POST", "/b"],
      ["PATCH", "/a"],
    ] as const)
      expect(isReplayed(await service.send({ method, path, key: "k" }))).toBe(false);
    expect(service.runs()).toBe(3);
    const named = await serve({ options: { operation: "order" } });
    await named.send({ key: "k", path: "/a" });
    expect((await named.send({ key: "k", path: "/b" })).status).toBe(422);
  });

  test("idempo: a request without a key passes through untouched, and no store is asked", async () => {
    const { store, calls } = notingStore(memoryStore());
    const door = gate();
    const service = await serve({
      store,
      handler: async ({ res }) => {
        res.write("first ");
        await door.pass();
        res.end("last");
      },
    });
    const outgoing = request({ port: service.port, host: "127.0.0.1", method: "POST" }).end("{}");
    const [response] = await once(outgoing, "response");
    // Nothing is held back: the head is here while the handler still runs.
    expect(response.statusCode).toBe(200);
    door.open();
    expect((await received(response)).text).toBe("first last");
    expect(calls).toEqual([]);
  });

  test("idempo: a key has at most 255 characters", async () => {
    const service = await serve();
    expect((await service.send({ key: "x".repeat(255) })).status).toBe(201);
    const refused = await service.send({ key: "x".repeat(256) });
    expect([refused.status, refused.json().code, service.runs()]).toEqual([400, "key-invalid", 1]);
  });
});

describe("claims", () => {
  test("idempo: of 50 equal requests at once one runs, and the others get its answer or a 409", async () => {
    const service = await serve();
    const answers = await Promise.all(Array.from({ length: 50 }, () => service.send({ key: "k" })));
    expect(service.runs()).toBe(1);
    expect(answers.filter(({ status }) => ![201, 409].includes(status))).toEqual([]);
    const bodies = answers.filter(({ status }) => status === 201).map(({ text }) => text);
    expect(new Set(bodies).size).toBe(1);
  });

  test("idempo: a duplicate of what still runs is refused", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const first = service.send({ key: "k" });
    await door.reached();
    expect((await service.send({ key: "k" })).status).toBe(409);
    door.open();
    expect((await first).text).toBe("order 1");
  });

  test("idempo: one who lost his claim neither keeps his answer nor frees the key", async () => {
    for (const status of [201, 500]) {
      const time = virtualTime();
      const store = memoryStore({ clock: time.clock });
      const cut = faultyStore(store, { timer: time.timer });
      const door = gate();
      const late = await serve({ time, store: cut, handler: waitingAt(door, status) });
      const heir = await serve({ time, store });
      const lost = late.send({ key: "k" });
      await door.reached();
      cut.setRates({ refuse: 1 });
      await time.advance(30_000);
      await heir.send({ key: "k" });
      const kept = await heir.guard.read(SUBJECT);
      cut.setRates({});
      door.open();
      await lost;
      expect(await heir.guard.read(SUBJECT)).toEqual(kept);
      expect(kept).toMatchObject({ state: "completed", number: 2 });
    }
  });

  test("idempo: a failed and a stale claim are each taken over by one", async () => {
    const failed = await serve({ handler: failingOnce, options: { onPending: "wait" } });
    await failed.send({ key: "k" });
    const retries = await Promise.all(Array.from({ length: 10 }, () => failed.send({ key: "k" })));
    expect(new Set(retries.map(({ text }) => text))).toEqual(new Set(["order 2"]));
    expect(failed.runs()).toBe(2);

    const time = virtualTime();
    const store = memoryStore({ clock: time.clock });
    const dead = faultyStore(store, { timer: time.timer });
    const door = gate();
    const stale = await serve({ time, store: dead, handler: waitingAt(door) });
    const heirs = await serve({ time, store });
    const lost = stale.send({ key: "k" });
    await door.reached();
    dead.setRates({ refuse: 1 });
    await time.advance(30_000);
    await Promise.all(Array.from({ length: 10 }, () => heirs.send({ key: "k" })));
    expect(heirs.runs()).toBe(1);
    dead.setRates({});
    door.open();
    await lost;
  });

  test("idempo: services that share a store share its keys", async () => {
    const store = memoryStore();
    const services = [await serve({ store }), await serve({ store })];
    const sent = Array.from({ length: 20 }, (_, index) => services[index % 2]?.send({ key: "k" }));
    for (const answer of await Promise.all(sent)) expect([201, 409]).toContain(answer?.status);
    expect((services[0]?.runs() ?? 0) + (services[1]?.runs() ?? 0)).toBe(1);
  });
});

describe("outcomes", () => {
  test("idempo: status, headers and body are stored and replayed, with a mark", async () => {
    const service = await serve({
      options: { replayHeaders: ["X-Custom"] },
      handler: ({ res }) =>
        res
          .writeHead(202, {
            "Content-Type": "application/vnd.shop+json",
            "X-Custom": "kept",
            Location: "/jobs/1",
          })
          .end('{"job":1}'),
    });
    const first = await service.send({ key: "k" });
    const second = await service.send({ key: "k" });
    for (const name of ["content-type", "x-custom", "location"])
      expect(second.header(name)).toBe(first.header(name));
    expect([second.status, second.text]).toEqual([202, '{"job":1}']);
    expect([isReplayed(first), isReplayed(second)]).toEqual([false, true]);
  });

  test("idempo: another payload under a key is a 422, also while the first one runs", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const first = service.send({ key: "k", body: { amount: 1 } });
    await door.reached();
    expect((await service.send({ key: "k", body: { amount: 2 } })).status).toBe(422);
    door.open();
    await first;
    expect((await service.send({ key: "k", body: { amount: 2 } })).status).toBe(422);
    expect(service.runs()).toBe(1);
  });

  test("idempo: the payload may be compared by its bytes", async () => {
    const service = await serve({ options: { fingerprint: "raw" } });
    await service.send({ key: "k", body: '{"a":1}' });
    expect((await service.send({ key: "k", body: '{"a": 1}' })).status).toBe(422);
  });

  test("idempo: a 5xx frees the key", async () => {
    for (const status of [500, 502, 503]) {
      const service = await serve({
        handler: ({ res, run }) => res.writeHead(run === 1 ? status : 201).end(),
      });
      const statuses = [await service.send({ key: "k" }), await service.send({ key: "k" })].map(
        (a) => a.status,
      );
      expect(statuses).toEqual([status, 201]);
    }
  });

  test("idempo: a 4xx of the handler is kept and replayed", async () => {
    for (const status of [400, 404, 409, 422]) {
      const service = await serve({ handler: ({ res, run }) => res.writeHead(status).end(`refused ${run}`) });
      const answers = [await service.send({ key: "k" }), await service.send({ key: "k" })];
      expect(answers.map((answer) => [answer.status, answer.text, isReplayed(answer)])).toEqual([
        [status, "refused 1", false],
        [status, "refused 1", true],
      ]);
    }
  });

  test("idempo: an answer over 1 MiB reaches its client whole and is not stored; here it is not run again either", async () => {
    const large = Buffer.alloc(MIB + 1, "x");
    const service = await serve({ handler: ({ res }) => res.writeHead(201).end(large) });
    expect((await service.send({ key: "k" })).body.equals(large)).toBe(true);
    const again = await service.send({ key: "k" });
    expect([again.status, again.body.length, again.header("nevertwice-outcome")]).toEqual([
      201,
      0,
      "not-kept",
    ]);
    expect(service.runs()).toBe(1);
    const record = await service.guard.read(SUBJECT);
    expect(JSON.stringify(record).length).toBeLessThan(2_000);
  });
});

describe("time", () => {
  test("idempo: how long a claim holds and how long an answer is kept are two settings", async () => {
    const time = virtualTime();
    const store = memoryStore({ clock: time.clock });
    const dead = faultyStore(store, { timer: time.timer });
    const options = { leaseMs: 1_000, retentionMs: 60_000 };
    const door = gate();
    const stale = await serve({ time, store: dead, options, handler: waitingAt(door) });
    const service = await serve({ time, store, options });
    const lost = stale.send({ key: "k" });
    await door.reached();
    dead.setRates({ refuse: 1 });
    await time.advance(999);
    expect((await service.send({ key: "k" })).status).toBe(409);
    await time.advance(1);
    expect((await service.send({ key: "k" })).status).toBe(201);
    // The answer's own window begins with it.
    await time.advance(59_999);
    expect(isReplayed(await service.send({ key: "k" }))).toBe(true);
    await time.advance(1);
    expect(isReplayed(await service.send({ key: "k" }))).toBe(false);
    expect(service.runs()).toBe(2);
    dead.setRates({});
    door.open();
    await lost;
  });

  test("idempo: a repeat does not lengthen the window, and an expired key is new on access", async () => {
    const time = virtualTime();
    const service = await serve({ time, options: { retentionMs: 1_000 } });
    await service.send({ key: "k" });
    await time.advance(999);
    expect(isReplayed(await service.send({ key: "k" }))).toBe(true);
    await time.advance(1);
    expect(isReplayed(await service.send({ key: "k" }))).toBe(false);
  });

  test("idempo: what is past its window is swept in the background", async () => {
    const time = virtualTime();
    const service = await serve({ time, options: { retentionMs: 1_000 }, guard: { purgeEveryMs: 60_000 } });
    await service.send({ key: "k" });
    await time.advance(120_000);
    expect(service.events).toContainEqual({ kind: "purged", removed: 1 });
  });
});

describe("failures", () => {
  test("idempo: a store that is down at the claim fails closed", async () => {
    const service = await serve({ store: faultyStore(memoryStore(), { rates: { refuse: 1 } }) });
    const answer = await service.send({ key: "k" });
    expect([answer.status, answer.json().code, service.runs()]).toEqual([503, "unavailable", 0]);
  });

  test("idempo: a store that is down after the effect: the answer is served, it is told, and kept later", async () => {
    const store = faultyStore(memoryStore());
    store.plan("complete", "refuse");
    const service = await serve({ store });
    const first = await service.send({ key: "k" });
    expect([first.status, service.events.map(({ kind }) => kind)]).toEqual([
      201,
      expect.arrayContaining(["unavailable"]),
    ]);
    expect(service.events).toContainEqual(
      expect.objectContaining({ kind: "unavailable", during: "complete" }),
    );
    await service.happened("completed");
    expect([isReplayed(await service.send({ key: "k" })), service.runs()]).toEqual([true, 1]);
  });

  test("idempo: a store that does not answer when the answer is to be kept holds it up for a bounded time", async () => {
    const time = virtualTime();
    const store = faultyStore(memoryStore({ clock: time.clock }), { timer: time.timer });
    store.plan("complete", "hang");
    const service = await serve({ time, store, options: { completeWaitMs: 1_000, storeTimeoutMs: 5_000 } });
    const first = service.send({ key: "k" });
    await service.happened("claimed");
    await time.advance(1_000);
    expect((await first).status).toBe(201);
    await time.advance(5_000);
    expect(isReplayed(await service.send({ key: "k" }))).toBe(true);
  });

  test("idempo: what a slow handler answers is kept although its client has gone", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const leaving = new AbortController();
    const first = service.send({ key: "k", signal: leaving.signal }).catch(() => "gone");
    await door.reached();
    leaving.abort();
    expect(await first).toBe("gone");
    door.open();
    await service.happened("completed");
    const again = await service.send({ key: "k" });
    expect([again.text, isReplayed(again), service.runs()]).toEqual(["order 1", true, 1]);
  });

  test("idempo: a handler that throws frees the key, and its error goes on its way", async () => {
    const thrown: unknown[] = [];
    const app = express();
    let runs = 0;
    const guard = createEngine({ store: memoryStore(), purgeEveryMs: 0 });
    app.post("/orders", idempotency(guard, { scope: "anyone" }), (_req, res) => {
      if (++runs === 1) throw new Error("the printer is on fire");
      res.status(201).end();
    });
    app.use((error: unknown, _req: unknown, res: express.Response, _next: unknown) => {
      thrown.push(error);
      res.status(500).end();
    });
    const { send } = await listen(app);
    expect((await send({ key: "k" })).status).toBe(500);
    expect((await send({ key: "k" })).status).toBe(201);
    expect(thrown).toEqual([new Error("the printer is on fire")]);
  });

  test("idempo: a store is told when nobody waits for its answer any more", async () => {
    const time = virtualTime();
    const signals: AbortSignal[] = [];
    const store: Store = {
      ...memoryStore({ clock: time.clock }),
      usesSignal: true,
      claim: ({ signal }) => {
        if (signal) signals.push(signal);
        return new Promise(() => {});
      },
    };
    const service = await serve({ time, store, options: { storeTimeoutMs: 1_000 } });
    const answer = service.send({ key: "k" });
    while (signals.length === 0) await new Promise((resolve) => void setImmediate(resolve));
    await time.advance(60_000);
    expect((await answer).status).toBe(503);
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
  });

  test("idempo: a guard that closes lets running requests finish, and takes no new ones", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const running = service.send({ key: "k" });
    await door.reached();
    const closed = service.guard.close();
    const refused = await service.send({ key: "other" });
    expect([refused.status, refused.json().code]).toEqual([503, "guard-closed"]);
    door.open();
    expect((await running).status).toBe(201);
    expect(await closed).toEqual([]);
  });
});

describe("HTTP", () => {
  test("idempo: a middleware for the header Idempotency-Key", async () => {
    const app = express();
    let runs = 0;
    app.use(idempotency(createEngine({ store: memoryStore(), purgeEveryMs: 0 }), { scope: "anyone" }));
    app.post("/orders", (_req, res) => void res.status(201).json({ order: ++runs }));
    const { send } = await listen(app);
    const answers = [await send({ key: "k" }), await send({ key: "k" }), await send()];
    expect(answers.map((answer) => [answer.status, answer.json().order, isReplayed(answer)])).toEqual([
      [201, 1, false],
      [201, 1, true],
      [201, 2, false],
    ]);
  });

  test("idempo: a replay is marked by a header", async () => {
    const service = await serve({ options: { replayedHeader: "Idempotency-Replayed" } });
    await service.send({ key: "k" });
    expect((await service.send({ key: "k" })).header("idempotency-replayed")).toBe("true");
  });

  test("idempo: errors are problem details that link to their explanation, which exists", async () => {
    const service = await serve({ options: { required: true } });
    const answer = await service.send();
    expect(answer.header("content-type")).toBe("application/problem+json");
    const { documentation } = answer.json<{ documentation: string }>();
    const page = await readFile(new URL("../../../../docs/errors.md", import.meta.url), "utf8");
    expect(documentation).toMatch(/\/docs\/errors\.md#key-missing$/);
    expect(page).toContain("\n## `key-missing`\n");
  });

  test("idempo: 400, 409, 413, 422 and a failing store each have a status and a code of their own", async () => {
    const door = gate();
    const store = faultyStore(memoryStore());
    const service = await serve({ store, handler: waitingAt(door), options: { maxBodyBytes: 50 } });
    const running = service.send({ key: "k" });
    await door.reached();
    const refusals = [
      await service.send({ key: "x".repeat(256) }),
      await service.send({ key: "k" }),
      await service.send({ key: "large", body: "x".repeat(51) }),
      await service.send({ key: "k", body: "other" }),
    ];
    store.setRates({ refuse: 1 });
    refusals.push(await service.send({ key: "down" }));
    store.setRates({});
    door.open();
    await running;
    expect(refusals.map((answer) => [answer.status, answer.json().code])).toEqual([
      [400, "key-invalid"],
      [409, "pending"],
      [413, "body-too-large"],
      [422, "conflict"],
      [503, "unavailable"],
    ]);
  });

  test("idempo: a body is read up to 1 MiB, and is whole for the handler", async () => {
    const lengths: number[] = [];
    const service = await serve({
      handler: async ({ req, res }) => {
        let length = 0;
        for await (const chunk of req) length += chunk.length;
        lengths.push(length);
        res.end();
      },
    });
    expect((await service.send({ key: "a", body: Buffer.alloc(MIB) })).status).toBe(200);
    expect((await service.send({ key: "b", body: Buffer.alloc(MIB + 1) })).status).toBe(413);
    expect(lengths).toEqual([MIB]);
  });

  test("idempo: a stream flows while its handler still runs", async () => {
    const door = gate();
    const service = await serve({
      handler: async ({ res }) => {
        res.writeHead(200, { "Content-Type": "text/event-stream" });
        res.write("data: 1\n\n");
        await door.pass();
        res.end("data: 2\n\n");
      },
    });
    const headers = { "Idempotency-Key": "k" };
    const outgoing = request({ port: service.port, host: "127.0.0.1", method: "POST", headers }).end();
    const [response] = await once(outgoing, "response");
    const [chunk] = await once(response, "data");
    expect(String(chunk)).toBe("data: 1\n\n");
    door.open();
    expect((await received(response)).text).toBe("data: 2\n\n");
  });

  test("idempo: an upgrade goes past the layer", async () => {
    const { store, calls } = notingStore(memoryStore());
    const service = await serve({ store });
    service.server.on("upgrade", (_req, socket) => {
      socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n");
      socket.pipe(socket);
    });
    const socket = connect(service.port, "127.0.0.1");
    const head = [
      "POST /orders HTTP/1.1",
      "Host: x",
      "Idempotency-Key: k",
      "Upgrade: echo",
      "Connection: Upgrade",
    ];
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    expect(String(await once(socket, "data"))).toContain("101 Switching Protocols");
    socket.write("hello");
    expect(String(await once(socket, "data"))).toBe("hello");
    socket.destroy();
    expect([calls, service.runs()]).toEqual([[], 0]);
  });

  test("idempo: a handler of the platform's own shape is all it needs", async () => {
    let runs = 0;
    const guard = createEngine({ store: memoryStore(), purgeEveryMs: 0 });
    const handler = withIdempotency(guard, { scope: "anyone" }, (_request: Request) =>
      Response.json({ order: ++runs }, { status: 201 }),
    );
    const ask = () =>
      handler(
        new Request("https://shop.example/orders", { method: "POST", headers: { "Idempotency-Key": "k" } }),
      );
    const answers = [await ask(), await ask()];
    expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual([{ order: 1 }, { order: 1 }]);
    expect(answers[1]?.headers.get("idempotent-replayed")).toBe("true");
  });

  test("idempo: each error tells a client whether to send the same again, and its page tells what to do", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const running = service.send({ key: "k" });
    await door.reached();
    const pending = await service.send({ key: "k" });
    const conflict = await service.send({ key: "k", body: "other" });
    door.open();
    await running;
    expect([pending.json().retryable, pending.header("retry-after")]).toEqual([true, "1"]);
    expect([conflict.json().retryable, conflict.header("retry-after")]).toEqual([false, undefined]);
    const page = await readFile(new URL("../../../../docs/errors.md", import.meta.url), "utf8");
    for (const code of Object.keys(ERROR_CODES)) {
      const section = page.split(`\n## \`${code}\`\n`)[1]?.split("\n## ")[0];
      expect([code, section?.includes("**What to do.**")]).toEqual([code, true]);
    }
  });

  test("idempo: what happens is told in a form that a log can take", async () => {
    const service = await serve();
    await service.send({ key: "k" });
    await service.send({ key: "k" });
    expect(service.events).toMatchObject([
      { kind: "claimed", operation: "POST /orders", number: 1 },
      { kind: "completed", operation: "POST /orders" },
      { kind: "replayed", operation: "POST /orders", refused: false },
    ]);
    expect(JSON.parse(JSON.stringify(service.events))).toEqual(service.events);
  });
});
