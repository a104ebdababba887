/** Group commit, by itself: what goes together, what goes first, and what becomes of a write that fails or hangs. */
import { afterEach, expect, test, vi } from "vitest";
import { type BatchOptions, createBatch } from "../../src/stores/batch.ts";

afterEach(() => void vi.useRealTimers());

interface Flight {
  readonly calls: readonly string[];
  /** Answers each call with its own text in capitals. */
  land(answers?: readonly (string | undefined)[]): void;
  crash(error?: Error): void;
}

/** A batch whose writes land when the test says so. */
function scene(options: Partial<BatchOptions<string, string>> = {}) {
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

test("an idle batch sends at once, and what comes meanwhile goes together in the next write", async () => {
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

test("calls of one turn of the event loop share the first write", async () => {
  const { batch, flights } = scene();
  const answers = Promise.all([batch.run("a"), batch.run("b")]);
  await settled();
  expect(flights.map(({ calls }) => calls)).toEqual([["a", "b"]]);
  flights[0]?.land();
  expect(await answers).toEqual(["A", "B"]);
});

test("urgent calls go before the others, in the order they came", async () => {
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

test("a write takes no more calls and no more bytes than it may, and always one", async () => {
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

test("a call that cannot be judged fails by itself and takes nobody with it", async () => {
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

test("as many writes as allowed are under way at once", async () => {
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

test("calls of one id never share a write, and keep their order", async () => {
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

test("a write that fails is repeated call by call: each caller gets its own answer or its own error", async () => {
  const { batch, flights, alone } = scene();
  const outcomes = Promise.allSettled(["a", "poison", "b"].map(batch.run));
  await settled();
  flights[0]?.crash(new Error("somebody's outcome was refused"));
  const [a, poison, b] = await outcomes;
  expect(a).toEqual({ status: "fulfilled", value: "a alone" });
  expect(poison).toMatchObject({ status: "rejected", reason: { message: "poison is poisoned" } });
  expect(b).toEqual({ status: "fulfilled", value: "b alone" });
  expect(alone).toEqual(["a", "poison", "b"]);
});

test("a write of one call that fails tells its caller the error as it is", async () => {
  const { batch, flights, alone } = scene();
  const only = batch.run("a");
  await settled();
  flights[0]?.crash(new Error("connection lost"));
  await expect(only).rejects.toThrow("connection lost");
  expect(alone).toEqual([]);
});

test("a call that was not done is asked again in the next write, and after three writes alone", async () => {
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

test("a write that hangs holds nobody back for long, not even calls of its own ids", async () => {
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
  // Its answer, when it comes at last, is its caller's all the same, and lets nobody else go twice.
  const later = batch.run("a3");
  await settled();
  flights[0]?.land();
  expect(await stuck).toBe("A1");
  flights[2]?.land();
  expect(await later).toBe("A3");
  expect(flights).toHaveLength(3);
});

test("ten thousand calls of one id are answered one write after the other, in order, without a long queue being walked", async () => {
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
