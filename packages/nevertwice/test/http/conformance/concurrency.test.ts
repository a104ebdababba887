/** Tests many requests with one key, slow owners and failing upstreams: the handler runs once and all get one answer. */
import { once } from "node:events";
import { request } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { memoryStore } from "../../../src/stores/memory.ts";
import { faultyStore } from "../../../src/testing/faulty-store.ts";
import { REPLAYED } from "../replayed-header.ts";
import { type Gate, gate, type Handler, notingStore, serve, virtualTime } from "./service.ts";

const LEASE_MS = 30_000;

function waitingAt(door: Gate, status = 201): Handler {
  return async ({ res, run }) => {
    await door.pass();
    res.writeHead(status, { "Content-Type": "application/json" });
    res.end(JSON.stringify({ order: run }));
  };
}

describe("a key", () => {
  test("CC-01 of 50 requests at once runs once; the other requests get a 409 or the same answer", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const requests = Array.from({ length: 50 }, () => service.send({ key: "k" }));
    await door.reached();
    const refused = await Promise.race(requests);
    expect(refused.status).toBe(409);
    door.open();
    const answers = await Promise.all(requests);
    expect(service.runs()).toBe(1);
    const first = answers.filter(({ status }) => status === 201);
    expect(first.length).toBeGreaterThanOrEqual(1);
    expect(new Set(first.map(({ text }) => text))).toEqual(new Set(['{"order":1}']));
    expect(first.filter((answer) => answer.header(REPLAYED) === undefined)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(50 - first.length);
  });

  test("CC-02 whose request still runs answers a duplicate with Retry-After in seconds", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const first = service.send({ key: "k" });
    await door.reached();
    const { status, header } = await service.send({ key: "k" });
    expect(status).toBe(409);
    expect(header("retry-after")).toMatch(/^[1-9]\d*$/);
    door.open();
    await first;
  });

  test("CC-03 whose request still runs answers another payload with a conflict, without Retry-After", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const first = service.send({ key: "k", body: { amount: 1 } });
    await door.reached();
    const other = await service.send({ key: "k", body: { amount: 2 } });
    expect([other.status, other.json().code, other.header("retry-after")]).toEqual([
      422,
      "conflict",
      undefined,
    ]);
    door.open();
    await first;
    expect(service.runs()).toBe(1);
  });

  test("CC-04 with onPending wait makes a duplicate wait for the answer, at most for waitMs", async () => {
    const time = virtualTime();
    const door = gate();
    const options = { onPending: "wait", waitMs: 5_000 } as const;
    const { store, asked } = notingStore(memoryStore({ clock: time.clock }));
    const service = await serve({ time, store, handler: waitingAt(door), options });
    const first = service.send({ key: "k" });
    await door.reached();
    const early = service.send({ key: "k" });
    await asked("claim", 2);
    await time.advance(5_000);
    expect((await early).status).toBe(409);
    const waiting = service.send({ key: "k" });
    // The first duplicate claimed once more before it gave up.
    await asked("claim", 4);
    await time.advance(4_999);
    door.open();
    const { text } = await first;
    await time.advance(5);
    const answer = await waiting;
    expect([answer.status, answer.text, answer.header(REPLAYED)]).toEqual([201, text, "true"]);
    expect(service.runs()).toBe(1);
  });

  test("CC-05 is not changed by a duplicate that gets a 409", async () => {
    const door = gate();
    const service = await serve({ handler: waitingAt(door) });
    const subject = { operation: "POST /orders", key: "k" };
    const first = service.send({ key: "k" });
    await door.reached();
    const { fence, state } = (await service.guard.read(subject)) ?? {};
    expect((await service.send({ key: "k" })).status).toBe(409);
    expect(await service.guard.read(subject)).toMatchObject({ fence, state, number: 1 });
    expect(state).toBe("pending");
    door.open();
    await first;
    expect((await service.send({ key: "k" })).status).toBe(201);
  });

  test("CC-06 that was taken over refuses its first owner, whose client gets the stored answer", async () => {
    const time = virtualTime();
    const store = memoryStore({ clock: time.clock });
    const cut = faultyStore(store, { timer: time.timer });
    const door = gate();
    const slow = await serve({ time, store: cut, guard: { leaseMs: LEASE_MS }, handler: waitingAt(door) });
    const quick = await serve({ time, store, guard: { leaseMs: LEASE_MS } });
    const late = slow.send({ key: "k" });
    await door.reached();
    // No renewal reaches the store until the lease has ended.
    cut.setRates({ refuse: 1 });
    await time.advance(LEASE_MS);
    const answer = await quick.send({ key: "k" });
    expect([answer.status, quick.runs()]).toEqual([201, 1]);
    const kept = await quick.guard.read({ operation: "POST /orders", key: "k" });
    cut.setRates({});
    door.open();
    expect((await late).text).toBe(answer.text);
    expect(await quick.guard.read({ operation: "POST /orders", key: "k" })).toEqual(kept);
    expect(slow.events.some(({ kind }) => kind === "lease-lost")).toBe(true);
  });

  test("CC-07 whose first run fails while two duplicates wait is run by one of them", async () => {
    const doors = [gate(), gate()];
    const { store, asked } = notingStore(memoryStore());
    const service = await serve({
      store,
      options: { onPending: "wait" },
      handler: (call) => waitingAt(doors[call.run - 1] as Gate, call.run === 1 ? 500 : 201)(call),
    });
    const first = service.send({ key: "k" });
    await doors[0]?.reached();
    const others = [service.send({ key: "k" }), service.send({ key: "k" })];
    await asked("claim", 3);
    doors[0]?.open();
    expect((await first).status).toBe(500);
    await doors[1]?.reached();
    doors[1]?.open();
    const answers = await Promise.all(others);
    expect(answers.map(({ status, text }) => [status, text])).toEqual([
      [201, '{"order":2}'],
      [201, '{"order":2}'],
    ]);
    expect(answers.filter((answer) => answer.header(REPLAYED) === "true")).toHaveLength(1);
    expect(service.runs()).toBe(2);
  });

  test("CC-08 stays claimed beyond its lease while its handler runs", async () => {
    const time = virtualTime();
    const door = gate();
    const service = await serve({ time, guard: { leaseMs: LEASE_MS }, handler: waitingAt(door) });
    const first = service.send({ key: "k" });
    await door.reached();
    for (let leases = 0; leases < 5; leases++) {
      await time.advance(LEASE_MS);
      expect((await service.send({ key: "k" })).status).toBe(409);
    }
    door.open();
    expect((await first).status).toBe(201);
    expect(service.runs()).toBe(1);
  });

  test("CC-11 whose upstream failed after it received the request is held as unknown until an operator decides", async () => {
    const upstream = await breakingUpstream();
    const service = await serve({
      options: { onLapsed: "hold" },
      handler: async ({ res, attempt }) => {
        const forwarded = request({
          port: upstream.port,
          host: "127.0.0.1",
          method: "POST",
          path: "/charges",
        });
        forwarded.end("{}");
        await once(forwarded, "response").catch(() => {
          attempt?.keep("unknown");
          res.statusCode = 502;
        });
        res.end();
      },
    });
    expect((await service.send({ key: "k" })).status).toBe(502);
    const retries = [await service.send({ key: "k" }), await service.send({ key: "k" })];
    for (const retry of retries) {
      expect([retry.status, retry.json()]).toEqual([
        409,
        expect.objectContaining({ code: "unknown", retryable: false }),
      ]);
      expect(retry.header("retry-after")).toBeUndefined();
    }
    expect([service.runs(), upstream.requests()]).toEqual([1, 1]);
    // An operator has checked the upstream: nothing was charged, so the key is released.
    const subject = { operation: "POST /orders", key: "k" };
    const { fence } = (await service.guard.read(subject)) as { fence: number };
    expect(await service.guard.resolve({ ...subject, fence }, { status: "not-done" })).toBe(true);
    await service.send({ key: "k" });
    expect(upstream.requests()).toBe(2);
  });
});

/** An upstream that reads a whole request and closes the connection without an answer. */
async function breakingUpstream() {
  let requests = 0;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      requests++;
      socket.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, requests: () => requests };
}
