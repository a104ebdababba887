/**
 * Tests the HTTP layer as a client sees it, over real sockets. The titles that begin with `idempo:` are the rows of
 * docs/moving-from-idempo.md; stores/shared-*.test.ts has the rows that are about stores.
 */
import { once } from "node:events";
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
import { page, text } from "../documents.ts";
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
import { REPLAYED } from "./replayed-header.ts";

const MIB = 1_048_576;
const SUBJECT = { operation: "POST /orders", key: "k" };
const isReplayed = (answer: Received) => answer.header(REPLAYED) === "true";

function waitingAt(door: Gate, status = 201): Handler {
  return async ({ res, run }) => {
    await door.pass();
    res.writeHead(status).end(`order ${run}`);
  };
}

/** A store that is broken on purpose: it lets every attempt settle a key, whichever attempt has it. */
function ignoringTokens(store: Store): Store {
  const owner = async (id: string) => (await store.read(id))?.token ?? "";
  return {
    ...store,
    complete: async (request) => store.complete({ ...request, token: await owner(request.id) }),
    abandon: async (request) => store.abandon({ ...request, token: await owner(request.id) }),
  };
}

const failingOnce: Handler = ({ res, run }) => res.writeHead(run === 1 ? 500 : 201).end(`order ${run}`);

describe("keys", () => {
  test("idempo: caller-supplied key: the header Idempotency-Key carries it", async () => {
    const service = await serve();
    const answers = [
      await service.send({ key: "a" }),
      await service.send({ key: "b" }),
      await service.send({ key: "a" }),
    ];
    expect(answers.map((answer) => answer.json().order)).toEqual([1, 2, 1]);
  });

  test("idempo: bound to action type: a key belongs to one method and path", async () => {
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

  test("idempo: missing key → pass through: the response is not held back, and the store is not called", async () => {
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
    // The head arrives while the handler still runs.
    expect(response.statusCode).toBe(200);
    door.open();
    expect((await received(response)).text).toBe("first last");
    expect(calls).toEqual([]);
  });

  test("idempo: key length limit: 255 characters", async () => {
    const service = await serve();
    expect((await service.send({ key: "x".repeat(255) })).status).toBe(201);
    const refused = await service.send({ key: "x".repeat(256) });
    expect([refused.status, refused.json().code, service.runs()]).toEqual([400, "key-invalid", 1]);
  });

  test("idempo: opaque byte-exact comparison: keys that differ in case or in one character are different keys", async () => {
    const service = await serve();
    const keys = ["order-1", "Order-1", "ORDER-1", "order-01", "order_1"];
    for (const key of keys) await service.send({ key });
    expect(service.runs()).toBe(keys.length);
    for (const key of keys) expect(isReplayed(await service.send({ key }))).toBe(true);
  });
});

describe("claims", () => {
  test("idempo: mass-concurrency test: of 50 equal requests at once one runs, and the others get its response or a 409", async () => {
    const service = await serve();
    const answers = await Promise.all(Array.from({ length: 50 }, () => service.send({ key: "k" })));
    expect(service.runs()).toBe(1);
    expect(answers.filter(({ status }) => ![201, 409].includes(status))).toEqual([]);
    const bodies = answers.filter(({ status }) => status === 201).map(({ text }) => text);
    expect(new Set(bodies).size).toBe(1);
  });

  describe("an attempt that lost its claim neither stores its response nor frees the key", () => {
    /** The final response under the key, and the state of its record while the attempt that took it over still ran. */
    async function lateAnswer(status: number, given: (store: Store) => Store) {
      const time = virtualTime();
      const store = given(memoryStore({ clock: time.clock }));
      const cut = faultyStore(store, { timer: time.timer });
      const [lateDoor, nextDoor] = [gate(), gate()];
      const late = await serve({ time, store: cut, handler: waitingAt(lateDoor, status) });
      const next = await serve({
        time,
        store,
        handler: async ({ res }) => {
          await nextDoor.pass();
          res.writeHead(201).end("the order of the next attempt");
        },
      });
      const lost = late.send({ key: "k" });
      await lateDoor.reached();
      cut.setRates({ refuse: 1 });
      await time.advance(30_000);
      const taken = next.send({ key: "k" });
      await nextDoor.reached();
      cut.setRates({});
      lateDoor.open();
      await lost;
      const meanwhile = (await next.guard.read(SUBJECT))?.state;
      nextDoor.open();
      await taken;
      return { meanwhile, kept: (await next.send({ key: "k" })).text };
    }

    const RIGHT = { meanwhile: "pending", kept: "the order of the next attempt" };

    test.each([201, 500])("when it answers %i while the next attempt runs", async (status) => {
      expect(await lateAnswer(status, (store) => store)).toEqual(RIGHT);
    });

    test.each([201, 500])(
      "a store that ignores tokens fails this test when the attempt answers %i",
      async (status) => {
        expect(await lateAnswer(status, ignoringTokens)).not.toEqual(RIGHT);
      },
    );
  });

  test("one request takes over a failed claim, and one a stale claim", async () => {
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
});

describe("outcomes", () => {
  test("idempo: stored status + headers + body: a replay has all three, and a header that marks it", async () => {
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

  test("idempo: canonical parameter serialisation: JSON is compared by its meaning, or by its bytes where an option says so", async () => {
    const [byMeaning, byBytes] = [await serve(), await serve({ options: { fingerprint: "raw" } })];
    const body = { type: "application/json", one: '{"a":1,"b":2}', other: '{"b": 2, "a": 1}' };
    for (const [service, status] of [
      [byMeaning, 201],
      [byBytes, 422],
    ] as const) {
      const headers = [["Content-Type", body.type]] as const;
      await service.send({ key: "k", headers, body: body.one });
      expect((await service.send({ key: "k", headers, body: body.other })).status).toBe(status);
    }
  });

  test("idempo: size cap on stored result: a response over 1 MiB reaches its client, is not stored, and does not run again", async () => {
    const large = Buffer.alloc(MIB + 1, "x");
    const service = await serve({ handler: ({ res }) => res.writeHead(201).end(large) });
    expect((await service.send({ key: "k" })).body.equals(large)).toBe(true);
    const again = await service.send({ key: "k" });
    expect([again.status, again.json().code]).toEqual([409, "already-done"]);
    expect(service.runs()).toBe(1);
    const record = await service.guard.read(SUBJECT);
    expect(JSON.stringify(record).length).toBeLessThan(2_000);
  });
});

describe("failures", () => {
  test("idempo: honest crash boundary documented: a process that dies after the effect lets the next request run it again, and the page says so", async () => {
    const time = virtualTime();
    const store = memoryStore({ clock: time.clock });
    const dying = faultyStore(store, { timer: time.timer });
    const door = gate();
    const first = await serve({ time, store: dying, handler: waitingAt(door) });
    const lost = first.send({ key: "k" });
    await door.reached();
    dying.setRates({ refuse: 1 });
    await time.advance(30_000);
    const second = await serve({ time, store });
    expect((await second.send({ key: "k" })).status).toBe(201);
    expect([first.runs(), second.runs()]).toEqual([1, 1]);
    expect(await page("docs/moving-from-idempo.md")).toContain(
      "A process that dies after the effect and before its response is stored lets the next request run the handler again",
    );
    dying.setRates({});
    door.open();
    await lost;
  });
});

async function expectStreamFlows() {
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
}

async function expectUpgradePassesThrough() {
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
}

describe("HTTP", () => {
  test("idempo: streaming / upgrade pass-through: a stream flows while its handler runs, and an upgrade is not captured", async () => {
    await expectStreamFlows();
    await expectUpgradePassesThrough();
  });

  test("idempo: Idempotency-Key middleware: one line in an Express application", async () => {
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

  test("idempo: replay marker header: its name is an option", async () => {
    const service = await serve({ options: { replayedHeader: "Idempotency-Replayed" } });
    await service.send({ key: "k" });
    expect((await service.send({ key: "k" })).header("idempotency-replayed")).toBe("true");
  });

  test("idempo: problem+json errors with docs URL: the URL names a section that exists", async () => {
    const service = await serve({ options: { required: true } });
    const answer = await service.send();
    expect(answer.header("content-type")).toBe("application/problem+json");
    const { documentation } = answer.json<{ documentation: string }>();
    const errors = await text("docs/errors.md");
    expect(documentation).toMatch(/\/docs\/errors\.md#key-missing$/);
    expect(errors).toContain("\n## `key-missing`\n");
  });

  test("idempo: 400 / 409 / 413 / 422 / 500 mapping: each has its own status and code, and a failing store is 503", async () => {
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

  test("idempo: request body cap and restore: a body may have 1 MiB, and the handler reads all of it", async () => {
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

  test("idempo: framework-neutral handler shape: a function from Request to Response is enough", async () => {
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
    expect(answers[1]?.headers.get(REPLAYED)).toBe("true");
  });

  test("idempo: client retry guidance per error: retryable, Retry-After, and a section of the docs", async () => {
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
    const errors = await text("docs/errors.md");
    for (const code of Object.keys(ERROR_CODES)) {
      const section = errors.split(`\n## \`${code}\`\n`)[1]?.split("\n## ")[0];
      expect([code, section?.includes("**What to do.**")]).toEqual([code, true]);
    }
  });

  test("idempo: structured logs: every event is plain data", async () => {
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
