/** Group commit without a store: which calls share a write, in which order, and what happens when a write fails or hangs. */
import { afterEach, expect, test, vi } from "vitest";
import { type CallBatchOptions, createBatch } from "../../src/stores/batch.ts";

afterEach(() => void vi.useRealTimers());

interface Flight {
  readonly calls: readonly string[];
  /** Answers each call with its text in capitals. */
  land(answers?: readonly (string | undefined)[]): void;
  crash(error?: Error): void;
}

/** A batch whose writes finish when the test lets them. */
function scene(options: Partial<CallBatchOptions<string, string>> = {}) {
  const flights: Flight[] = [];
  const alone: string[] = [];
  const batch = createBatch<string, string>({
    maxCalls: 100,
    send: (calls) =>
      new Promise((resolve, reject) => {
        flights.push({
          calls,
          land: (answers = calls.map((call) => call.toUpperCase())) => resolve(answers),
          crash: (error = new Error("the write failed")) => reject(error),
        });
      }),
    alone: async (call) => {
      alone.push(call);
      if (call.includes("poison")) throw new Error(`${call} is poisoned`);
      return `${call} alone`;
    },
    ...options,
  });
  return { batch, flights, alone };
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

test("an idle batch sends a call at once, and calls that arrive meanwhile share the next write", async () => {
  const { batch, flights } = scene();
  const first = batch.run("a");
  await Promise.resolve();
  expect(flights.map(({ calls }) => calls)).toEqual([["a"]]);
  const second = batch.run("b");
  const third = batch.run("c");
  await settled();
  expect(flights).toHaveLength(1);
  flights[0]?.land();
  expect(await first).toBe("A");
  await settled();
  expect(flights[1]?.calls).toEqual(["b", "c"]);
  flights[1]?.land();
  expect(await Promise.all([second, third])).toEqual(["B", "C"]);
});

test("after a group, the next write waits for the calls that follow, if the store gathers", async () => {
  const gathered: (() => void)[] = [];
  const { batch, flights } = scene({ gather: (next) => void gathered.push(next) });
  const group = Promise.all([batch.run("a"), batch.run("b")]);
  await settled();
  const queued = batch.run("c");
  flights[0]?.land();
  await group;
  await settled();
  const next = batch.run("d");
  await settled();
  expect(flights).toHaveLength(1);
  gathered[0]?.();
  expect(flights[1]?.calls).toEqual(["c", "d"]);
  flights[1]?.land();
  expect(await Promise.all([queued, next])).toEqual(["C", "D"]);
});

test("after a single call, the next write does not wait, even if the store gathers", async () => {
  const { batch, flights } = scene({ gather: () => expect.unreachable() });
  const first = batch.run("a");
  await settled();
  const second = batch.run("b");
  flights[0]?.land();
  await first;
  await settled();
  expect(flights[1]?.calls).toEqual(["b"]);
  flights[1]?.land();
  expect(await second).toBe("B");
});

test("calls in one turn of the event loop share the first write", async () => {
  const { batch, flights } = scene();
  const answers = Promise.all([batch.run("a"), batch.run("b")]);
  await settled();
  expect(flights.map(({ calls }) => calls)).toEqual([["a", "b"]]);
  flights[0]?.land();
  expect(await answers).toEqual(["A", "B"]);
});

test("urgent calls are sent first, in the order of their arrival", async () => {
  const { batch, flights } = scene({ isUrgent: (call) => call.startsWith("renew"), maxCalls: 3 });
  const done = Promise.all(["x", "claim 1", "claim 2", "renew 1", "renew 2"].map((call) => batch.run(call)));
  await settled();
  expect(flights[0]?.calls).toEqual(["renew 1", "renew 2", "x"]);
  flights[0]?.land();
  await settled();
  expect(flights[1]?.calls).toEqual(["claim 1", "claim 2"]);
  flights[1]?.land();
  await done;
});

test("a write contains at most maxCalls calls and maxBytes bytes, but always one call", async () => {
  const { batch, flights } = scene({ maxCalls: 3, maxBytes: 10, sizeOf: (call) => call.length });
  const done = Promise.all(["aaaa", "bbbb", "cccc", "d".repeat(99), "e", "f", "g", "h"].map(batch.run));
  const sent: string[][] = [];
  for (let index = 0; index < 5; index++) {
    await settled();
    sent.push([...(flights[index]?.calls ?? [])]);
    flights[index]?.land();
  }
  await done;
  expect(sent).toEqual([["aaaa", "bbbb"], ["cccc"], ["d".repeat(99)], ["e", "f", "g"], ["h"]]);
});

test("a call whose size cannot be computed fails alone", async () => {
  const { batch, flights } = scene({
    sizeOf(call) {
      if (call === "bad") throw new Error("no size");
      return 1;
    },
  });
  const outcomes = Promise.allSettled(["a", "bad", "b"].map(batch.run));
  await settled();
  expect(flights[0]?.calls).toEqual(["a", "b"]);
  flights[0]?.land();
  expect(await outcomes).toMatchObject([{ value: "A" }, { reason: { message: "no size" } }, { value: "B" }]);
});

test("at most maxFlights writes are in flight at once", async () => {
  const { batch, flights } = scene({ maxFlights: 2, maxCalls: 1 });
  const done = Promise.all(["a", "b", "c"].map(batch.run));
  await settled();
  expect(flights.map(({ calls }) => calls)).toEqual([["a"], ["b"]]);
  flights[1]?.land();
  await settled();
  expect(flights[2]?.calls).toEqual(["c"]);
  flights[0]?.land();
  flights[2]?.land();
  expect(await done).toEqual(["A", "B", "C"]);
});

test("calls with the same id never share a write, and keep their order", async () => {
  const { batch, flights } = scene({ idOf: (call) => call.slice(0, 1) });
  const done = Promise.all(["a1", "a2", "b1", "a3"].map(batch.run));
  const sent: (readonly string[] | undefined)[] = [];
  for (let index = 0; index < 3; index++) {
    await settled();
    sent.push(flights[index]?.calls);
    flights[index]?.land();
  }
  expect(sent).toEqual([["a1", "b1"], ["a2"], ["a3"]]);
  expect(await done).toEqual(["A1", "A2", "B1", "A3"]);
});

test("a failed write is repeated call by call, so each caller gets its own answer or error", async () => {
  const { batch, flights, alone } = scene();
  const outcomes = Promise.allSettled(["a", "poison", "b"].map(batch.run));
  await settled();
  flights[0]?.crash(new Error("an outcome was refused"));
  const [a, poison, b] = await outcomes;
  expect(a).toEqual({ status: "fulfilled", value: "a alone" });
  expect(poison).toMatchObject({ status: "rejected", reason: { message: "poison is poisoned" } });
  expect(b).toEqual({ status: "fulfilled", value: "b alone" });
  expect(alone).toEqual(["a", "poison", "b"]);
});

test("a failed write of one call rejects with its original error", async () => {
  const { batch, flights, alone } = scene();
  const only = batch.run("a");
  await settled();
  flights[0]?.crash(new Error("connection lost"));
  await expect(only).rejects.toThrow("connection lost");
  expect(alone).toEqual([]);
});

test("a call that was not carried out is repeated in the next write, and after three writes alone", async () => {
  const { batch, flights, alone } = scene();
  const done = Promise.all(["a", "b"].map(batch.run));
  await settled();
  flights[0]?.land(["A", undefined]);
  await settled();
  expect(flights[1]?.calls).toEqual(["b"]);
  flights[1]?.land([undefined]);
  await settled();
  flights[2]?.land([undefined]);
  expect(await done).toEqual(["A", "b alone"]);
  expect(alone).toEqual(["b"]);
});

test("a write that hangs delays other calls only briefly, even those with its ids", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const { batch, flights } = scene({ idOf: (call) => call.slice(0, 1) });
  const stuck = batch.run("a1");
  await settled();
  const others = Promise.all([batch.run("a2"), batch.run("b1")]);
  await settled();
  expect(flights).toHaveLength(1);
  vi.advanceTimersByTime(1_000);
  await settled();
  expect(flights[1]?.calls).toEqual(["b1", "a2"]);
  flights[1]?.land();
  expect(await others).toEqual(["A2", "B1"]);
  // Its late answer still reaches its caller, and starts no other call a second time.
  const later = batch.run("a3");
  await settled();
  flights[0]?.land();
  expect(await stuck).toBe("A1");
  flights[2]?.land();
  expect(await later).toBe("A3");
  expect(flights).toHaveLength(3);
});

test("ten thousand calls with one id are answered in order, one write each, without scanning a long queue", async () => {
  const order: string[] = [];
  const batch = createBatch<string, string>({
    maxCalls: 256,
    idOf: () => "hot",
    async send(calls) {
      order.push(...calls);
      return calls;
    },
    alone: async (call) => call,
  });
  const calls = Array.from({ length: 10_000 }, (_, index) => String(index));
  expect(await Promise.all(calls.map(batch.run))).toEqual(calls);
  expect(order).toEqual(calls);
});

test("a call that a slow write did not carry out is sent again, even if no other call arrives", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const { batch, flights } = scene();
  const both = Promise.all([batch.run("a"), batch.run("b")]);
  await settled();
  vi.advanceTimersByTime(1_000);
  flights[0]?.land(["A", undefined]);
  await settled();
  expect(flights[1]?.calls).toEqual(["b"]);
  flights[1]?.land();
  expect(await both).toEqual(["A", "B"]);
});

test("calls are taken from each turn, so that a few calls do not wait behind thousands of another one", async () => {
  const { batch, flights } = scene({ turnOf: (call) => call.slice(0, 1), maxCalls: 4 });
  const done = Promise.all(["a1", "a2", "a3", "a4", "a5", "a6", "b1", "b2", "c1"].map(batch.run));
  const sent: (readonly string[] | undefined)[] = [];
  for (let index = 0; index < 3; index++) {
    await settled();
    sent.push(flights[index]?.calls);
    flights[index]?.land();
  }
  expect(sent).toEqual([["a1", "b1", "c1", "a2"], ["b2", "a3", "a4", "a5"], ["a6"]]);
  expect(await done).toEqual(["A1", "A2", "A3", "A4", "A5", "A6", "B1", "B2", "C1"]);
});

test("urgent calls are sent in front of every turn, in the order of their arrival", async () => {
  const { batch, flights } = scene({
    turnOf: (call) => call.slice(0, 1),
    isUrgent: (call) => call.includes("renew"),
    maxCalls: 3,
  });
  const done = Promise.all(["a1", "b1", "a renew 1", "a renew 2", "b renew"].map(batch.run));
  await settled();
  expect(flights[0]?.calls).toEqual(["a renew 1", "a renew 2", "b renew"]);
  flights[0]?.land();
  await settled();
  expect(flights[1]?.calls).toEqual(["a1", "b1"]);
  flights[1]?.land();
  await done;
});

test("a turn whose calls were all sent starts anew behind the others", async () => {
  const { batch, flights } = scene({ turnOf: (call) => call.slice(0, 1), maxCalls: 1 });
  const first = Promise.all(["a1", "b1", "b2"].map(batch.run));
  await settled();
  const second = batch.run("a2");
  const sent: (readonly string[] | undefined)[] = [];
  for (let index = 0; index < 4; index++) {
    await settled();
    sent.push(flights[index]?.calls);
    flights[index]?.land();
  }
  expect(sent).toEqual([["a1"], ["b1"], ["a2"], ["b2"]]);
  await Promise.all([first, second]);
});
