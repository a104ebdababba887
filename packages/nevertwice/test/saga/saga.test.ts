import { expect, expectTypeOf, test, vi } from "vitest";
import { NevertwiceError } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { type RunContext, type SagaStep, saga, type UndoContext } from "../../src/saga/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { createScene } from "../core/scene.ts";
import { createWorld, DONE, UNDONE } from "./world.ts";

const request = { operation: "order", scope: "alice", key: "order-1", undoRetry: { max: 0 } };
const subject = { operation: "order", scope: "alice", key: "order-1" };
const OUTCOMES = { reserve: "reserve done", charge: "charge done", ship: "ship done" };

test("runs its steps in order, answers their outcomes, and replays them", async () => {
  const { guard, another, store } = createScene();
  const world = createWorld();
  expect(await saga(guard, request, world.steps)).toEqual({ status: "done", outcomes: OUTCOMES });
  expect(world.effects).toEqual(DONE);
  expect(store.calls).toMatchObject({ claim: 1, keepStep: 3, complete: 1, abandon: 0, read: 0 });
  expect(await saga(another(), request, world.steps)).toEqual({ status: "done", outcomes: OUTCOMES });
  expect(world.effects).toEqual(DONE);
});

test("undoes the step that threw and every finished one, the last one first, and replays that", async () => {
  const { guard } = createScene();
  const world = createWorld(["ship"]);
  const undone = { status: "undone", step: "ship", error: new Error("ship is broken") };
  expect(await saga(guard, request, world.steps)).toEqual(undone);
  expect(world.effects).toEqual(UNDONE);
  world.broken.clear();
  expect(await saga(guard, request, world.steps)).toEqual(undone);
  expect(world.effects).toEqual(UNDONE);
});

test("does not undo a step that said notDone, and answers its cause", async () => {
  const { guard } = createScene();
  const world = createWorld();
  const refusing = {
    name: "ship",
    run: ({ notDone }: RunContext) => Promise.reject(notDone(new Error("sold out"))),
    undo: () => void world.effects.push("undo ship"),
  };
  const steps = [...world.steps.slice(0, 2), refusing];
  const undone = { status: "undone", step: "ship", error: new Error("sold out") };
  expect(await saga(guard, request, steps)).toEqual(undone);
  expect(world.effects).toEqual(["reserve", "charge", "undo charge", "undo reserve"]);
});

test("undoes a step that said notDone if an earlier try of it may have happened", async () => {
  const { guard, settle } = createScene();
  const calls: string[] = [];
  const undo = () => void calls.push("undo");
  const run = ({ notDone }: RunContext) => {
    calls.push("run");
    throw calls.length === 1 ? new Error("the answer was lost") : notDone(new Error("refused"));
  };
  const steps = [{ name: "charge", run, undo }];
  const retried = saga(guard, { ...request, retry: { max: 1, baseMs: 0 } }, steps);
  expect(await settle(retried)).toMatchObject({ status: "undone", error: { message: "refused" } });
  expect(calls).toEqual(["run", "run", "undo"]);

  // The earlier try was that of an earlier attempt, whose inner guard could not answer.
  calls.length = 0;
  const cut = {
    name: "charge",
    run: ({ number, notDone }: RunContext) => {
      throw number === 1 ? new NevertwiceError("unavailable", "no store") : notDone(new Error("refused"));
    },
    undo,
  };
  const other = { ...request, key: "order-2" };
  expect(await saga(guard, other, [cut])).toMatchObject({ status: "unknown" });
  expect(await saga(guard, other, [cut])).toMatchObject({ status: "undone" });
  expect(calls).toEqual(["undo"]);
});

test("keeps the decision before anything is undone", async () => {
  const { guard } = createScene();
  const seen: unknown[] = [];
  const before = async (effect: string) => {
    if (!effect.startsWith("undo")) return;
    const { steps = [] } = (await guard.read(subject)) ?? {};
    seen.push(steps.map(({ name }) => name));
  };
  const world = createWorld(["charge"], { before });
  await saga(guard, request, world.steps);
  expect(seen).toEqual([
    ["reserve", "saga: undo from charge"],
    ["reserve", "saga: undo from charge", "saga: undid charge"],
  ]);
});

test("gives each step its own keys, the same on every attempt, and its undo others", async () => {
  const { guard } = createScene();
  const keys = new Map<string, Set<string>>();
  const note = (effect: string, { deriveKey }: RunContext | UndoContext) => {
    const seen = keys.get(effect) ?? keys.set(effect, new Set()).get(effect);
    seen?.add(deriveKey()).add(deriveKey("second"));
  };
  const world = createWorld(["undo charge", "ship"], { before: note });
  expect(await saga(guard, request, world.steps)).toMatchObject({ status: "parked" });
  const view = await guard.read(subject);
  await guard.resolve({ ...subject, fence: view?.fence ?? 0 }, { status: "not-done" });
  world.broken.clear();
  expect(await saga(guard, request, world.steps)).toMatchObject({ status: "undone" });
  expect([...keys.values()].map(({ size }) => size)).toEqual([2, 2, 2, 2, 2, 2]);
  expect(new Set([...keys.values()].flatMap((seen) => [...seen])).size).toBe(12);
});

test("hands each undo the outcome of its step and the error, and nothing for the step that threw", async () => {
  const { guard } = createScene();
  const seen: unknown[] = [];
  const world = createWorld(["ship"]);
  const steps = world.steps.map((step) => ({
    ...step,
    undo: ({ outcome, outcomes, error }: UndoContext) => void seen.push([outcome, outcomes, error]),
  }));
  await saga(guard, request, steps);
  const { ship: _, ...finished } = OUTCOMES;
  const error = new Error("ship is broken");
  expect(seen).toEqual([
    [undefined, finished, error],
    ["charge done", finished, error],
    ["reserve done", finished, error],
  ]);
});

test("hands each step the outcomes of the steps before it", async () => {
  const { guard } = createScene();
  interface Outcomes {
    readonly reserve: { readonly seat: number };
    readonly charge: string;
  }
  const result = await saga<Outcomes>(guard, request, [
    { name: "reserve", run: async () => ({ seat: 7 }) },
    { name: "charge", run: ({ outcomes }) => `seat ${outcomes.reserve?.seat}` },
  ]);
  expect(result).toEqual({ status: "done", outcomes: { reserve: { seat: 7 }, charge: "seat 7" } });
  if (result.status === "done") expectTypeOf(result.outcomes.reserve.seat).toEqualTypeOf<number>();
  const wrong = () =>
    // @ts-expect-error: the outcome of reserve has another type.
    saga<Outcomes>(guard, request, [{ name: "reserve", run: () => "seat 7" }]);
  expectTypeOf(wrong).toBeFunction();
});

test("a step without undo is left as it is", async () => {
  const { guard } = createScene();
  const world = createWorld(["ship"]);
  const [reserve, charge, ship] = world.steps as [SagaStep, SagaStep, SagaStep];
  const { undo: _, ...irreversible } = charge;
  expect(await saga(guard, request, [reserve, irreversible, ship])).toMatchObject({ status: "undone" });
  expect(world.effects).toEqual(["reserve", "charge", "undo ship", "undo reserve"]);
});

test("retries a step and an undo as often as it is told, with pauses", async () => {
  const { guard, settle, world: time } = createScene();
  const tries: string[] = [];
  const world = createWorld(["ship", "undo charge"], { before: (effect) => void tries.push(effect) });
  const retrying = {
    ...request,
    retry: { max: 2, baseMs: 1_000, jitter: 0 },
    undoRetry: { max: 1, baseMs: 5_000, jitter: 0 },
  };
  const running = saga(guard, retrying, world.steps);
  expect(await settle(running)).toMatchObject({ status: "parked", step: "charge" });
  expect(tries.filter((effect) => effect === "ship")).toHaveLength(3);
  expect(tries.filter((effect) => effect === "undo charge")).toHaveLength(2);
  expect(time.now()).toBe(1_000 + 2_000 + 5_000);
});

test("tries an undo four times by default, and a step once", async () => {
  const { guard, settle } = createScene();
  const tries: string[] = [];
  const world = createWorld(["reserve", "undo reserve"], { before: (effect) => void tries.push(effect) });
  expect(await settle(saga(guard, subject, world.steps))).toMatchObject({ status: "parked" });
  expect(tries).toEqual(["reserve", ...Array.from({ length: 4 }, () => "undo reserve")]);
});

test.each(["pending", "unavailable", "unknown", "lease-lost", "guard-closed", "store-full"] as const)(
  "a step of another guard that answers %s decides nothing",
  async (code) => {
    const { guard } = createScene();
    const world = createWorld();
    const error = new NevertwiceError(code, "ask again");
    let thrown: unknown = error;
    const failing = {
      name: "charge",
      run: async (context: RunContext) => {
        if (thrown !== undefined) throw thrown;
        return world.steps[1]?.run(context);
      },
      undo: () => void world.effects.push("undo charge"),
    };
    const steps = [world.steps[0] as SagaStep, failing];
    expect(await saga(guard, request, steps)).toMatchObject({ status: "unknown", error });
    thrown = new Error("the charge failed", { cause: error });
    expect(await saga(guard, request, steps)).toMatchObject({ status: "unknown", error: thrown });
    thrown = undefined;
    expect(await saga(guard, request, steps)).toMatchObject({ status: "done" });
    expect(world.effects).toEqual(["reserve", "charge"]);
  },
);

test("an undo that another guard cannot answer is not parked: the next call tries it again", async () => {
  const { guard } = createScene();
  const world = createWorld(["charge"]);
  let isDown = true;
  const [reserve, charge] = world.steps as [SagaStep, SagaStep];
  const steps = [
    {
      ...reserve,
      undo: (context: UndoContext) => {
        if (isDown) throw new NevertwiceError("unavailable", "no store");
        return reserve.undo?.(context);
      },
    },
    charge,
  ];
  expect(await saga(guard, request, steps)).toMatchObject({ status: "unknown" });
  expect((await guard.read(subject))?.held).toBe(false);
  isDown = false;
  expect(await saga(guard, request, steps)).toMatchObject({ status: "undone" });
  expect(world.effects).toEqual(["reserve", "undo charge", "undo reserve"]);
});

test("an undo that keeps failing is parked: held, shown with its reason, and not tried again", async () => {
  const { guard, another } = createScene();
  const world = createWorld(["ship", "undo charge"]);
  const first = await saga(guard, request, world.steps);
  const { fence = 0 } = (await guard.read(subject)) ?? {};
  const parked = { status: "parked", fence, step: "charge", error: new Error("undo charge is broken") };
  expect(first).toEqual(parked);
  world.broken.clear();
  expect(await saga(another(), request, world.steps)).toEqual(parked);
  expect(world.effects).toEqual(["reserve", "charge", "undo ship"]);
  const { records } = await guard.listUnknown();
  expect(records).toMatchObject([{ ...subject, state: "lapsed", held: true, fence }]);
  expect(records[0]?.steps?.map(({ name }) => name)).toEqual([
    "reserve",
    "charge",
    "saga: undo from ship",
    "saga: undid ship",
    "saga: parked 1: charge",
  ]);
  expect(records[0]?.steps?.at(-1)?.outcome).toEqual({ kind: "value", value: parked.error });
});

test("an operator lets a parked saga go on where it was", async () => {
  const { guard } = createScene();
  const world = createWorld(["ship", "undo charge"]);
  for (let round = 1; round <= 2; round++) {
    const parked = await saga(guard, request, world.steps);
    expect(parked).toMatchObject({ status: "parked", step: "charge" });
    const { fence } = parked as { fence: number };
    expect(await guard.resolve({ ...subject, fence }, { status: "not-done" })).toBe(true);
  }
  world.broken.clear();
  expect(await saga(guard, request, world.steps)).toMatchObject({ status: "undone", step: "ship" });
  expect(world.effects).toEqual(UNDONE);
});

test.each([
  [
    { status: "done", value: { status: "undone", step: "ship", error: new Error("by hand") } },
    { status: "undone", step: "ship", error: new Error("by hand") },
  ],
  [
    { status: "done", value: { status: "undone" } },
    { status: "undone", error: new Error("this saga was undone, and its error was not kept") },
  ],
  [
    { status: "done", value: { status: "done", outcomes: { ship: 1 } } },
    { status: "done", outcomes: { ship: 1 } },
  ],
  [
    { status: "done", value: { status: "done" } },
    { status: "done", outcomes: {} },
  ],
  [
    { status: "failed", error: new Error("refunded by hand") },
    { status: "undone", error: new Error("refunded by hand") },
  ],
  [{ status: "failed", error: undefined }, { status: "undone" }],
  [
    { status: "done", value: "ok" },
    { status: "not-kept", reason: "unreadable" },
  ],
  [
    { status: "done", value: { status: "done", outcomes: 7 } },
    { status: "not-kept", reason: "unreadable" },
  ],
] as const)("understands what an operator wrote: %j", async (decision, expected) => {
  const { guard } = createScene();
  const world = createWorld(["ship", "undo charge"]);
  const { fence } = (await saga(guard, request, world.steps)) as { fence: number };
  const { length } = world.effects;
  expect(await guard.resolve({ ...subject, fence }, decision)).toBe(true);
  expect(await saga(guard, request, world.steps)).toEqual(expected);
  expect(world.effects).toHaveLength(length);
});

test("a forgotten saga is not run again while its record is remembered", async () => {
  const { guard } = createScene();
  const world = createWorld();
  await saga(guard, request, world.steps);
  await guard.forget(subject);
  expect(await saga(guard, request, world.steps)).toEqual({ status: "not-kept", reason: "forgotten" });
  expect(world.effects).toEqual(DONE);
});

test("a held guard asks after a crash, and goes on when an operator released the key", async () => {
  const { guard, settle } = createScene({ onLapsed: "hold" });
  let isDown = true;
  const cut = createWorld([], {
    before(effect) {
      if (effect === "charge" && isDown) throw new NevertwiceError("unavailable", "no store");
    },
  });
  expect(await saga(guard, request, cut.steps)).toMatchObject({ status: "unknown" });
  const asked = await saga(guard, request, cut.steps);
  expect(asked).toMatchObject({ status: "unknown" });
  isDown = false;
  const { fence } = asked as { fence: number };
  await guard.resolve({ ...subject, fence }, { status: "not-done" });
  expect(await settle(saga(guard, request, cut.steps))).toMatchObject({ status: "done" });
  expect(cut.effects).toEqual(DONE);
});

test.each([
  ["forward", [], DONE, "done"],
  ["backward", ["ship"], UNDONE, "undone"],
] as const)(
  "an attempt that loses its claim while it goes %s decides nothing",
  async (_, broken, effects, end) => {
    const scene = createScene({ leaseMs: 1_000, maxRunMs: 60_000, waitMs: 0 });
    const point = end === "done" ? "charge" : "undo charge";
    let isPaused = false;
    const world = createWorld(broken, {
      async before(effect, { signal }) {
        if (effect !== point || isPaused) return;
        isPaused = true;
        // The renewals are lost, so the claim is lost; the work throws what its signal says.
        scene.store.setRates({ refuse: 1 });
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        throw new Error("aborted");
      },
    });
    const first = saga(scene.guard, request, world.steps);
    await scene.advance(2_000);
    expect(await scene.settle(saga(scene.another(), request, world.steps))).toMatchObject({ status: end });
    scene.store.setRates({});
    expect(await scene.settle(first)).toEqual({ status: "lease-lost" });
    expect(world.effects).toEqual(effects);
  },
);

test("a guard that closes leaves its saga to lapse, and another goes on", async () => {
  const scene = createScene({ leaseMs: 1_000, drainMs: 10, waitMs: 5_000 });
  let isHanging = true;
  const world = createWorld([], {
    async before(effect, { signal }) {
      if (effect !== "charge" || !isHanging) return;
      isHanging = false;
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      throw new Error("aborted");
    },
  });
  const first = saga(scene.guard, request, world.steps);
  await scene.advance(1);
  expect(await scene.settle(scene.guard.close())).toHaveLength(1);
  expect(await scene.settle(first)).toEqual({ status: "lease-lost" });
  expect(await scene.settle(saga(scene.another(), request, world.steps))).toMatchObject({ status: "done" });
  expect(world.effects).toEqual(DONE);
  expect(await saga(scene.guard, request, world.steps)).toMatchObject({
    status: "unavailable",
    error: { code: "guard-closed" },
  });
});

test("a caller that cancels stops waiting, and a step that throws afterwards decides nothing", async () => {
  const { guard } = createScene();
  const controller = new AbortController();
  const world = createWorld(["charge"], {
    before: (effect) => void (effect === "charge" && controller.abort(new Error("gone"))),
  });
  const cancelled = saga(guard, { ...request, signal: controller.signal }, world.steps);
  await expect(cancelled).rejects.toThrow("gone");
  await vi.waitFor(async () => expect((await guard.read(subject))?.state).toBe("lapsed"));
  expect(world.effects).toEqual(["reserve"]);
  world.broken.clear();
  expect(await saga(guard, request, world.steps)).toMatchObject({ status: "done" });
  expect(world.effects).toEqual(DONE);
});

test("a store that cannot be reached answers unavailable, whatever the guard's policy says", async () => {
  const { guard, store, settle } = createScene({ onUnavailable: "proceed", storeTimeoutMs: 100 });
  const world = createWorld();
  store.setRates({ refuse: 1 });
  expect(await settle(saga(guard, request, world.steps))).toMatchObject({ status: "unavailable" });
  expect(world.effects).toEqual([]);
});

test("a guard that refuses duplicates and remembers failures replays a saga all the same", async () => {
  const { guard } = createScene({ onCompleted: "reject", onFailure: "remember" });
  const world = createWorld(["ship"]);
  expect(await saga(guard, request, world.steps)).toMatchObject({ status: "undone" });
  expect(await saga(guard, request, world.steps)).toMatchObject({ status: "undone" });
});

test("another request with the same key is a conflict, also between two attempts", async () => {
  const { guard } = createScene();
  const world = createWorld(["ship", "undo ship"]);
  await saga(guard, { ...request, fingerprint: 1 }, world.steps);
  expect(await saga(guard, { ...request, fingerprint: 2 }, world.steps)).toEqual({
    status: "conflict",
    state: "lapsed",
  });
});

test("a duplicate in flight is pending", async () => {
  const { guard, another, settle } = createScene({ waitMs: 0 });
  let finish = () => {};
  const waits = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const steps = [{ name: "charge", run: () => waits }];
  const first = saga(guard, request, steps);
  expect(await settle(saga(another(), request, steps))).toMatchObject({ status: "pending" });
  finish();
  expect(await first).toEqual({ status: "done", outcomes: { charge: undefined } });
});

test("a step whose value cannot be kept is undone, and so is a saga that was interrupted right after it", async () => {
  const { guard } = createScene();
  vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  const calls: string[] = [];
  const steps = [
    {
      name: "charge",
      run: () => {
        calls.push("charge");
        return new (class Receipt {})();
      },
      undo: ({ outcome }: UndoContext) => void calls.push(`undo charge of ${outcome}`),
    },
    { name: "ship", run: () => calls.push("ship") },
  ];
  const expected = { status: "undone", step: "charge", error: { code: "not-kept" } };
  expect(await saga(guard, request, steps)).toMatchObject(expected);
  expect(calls).toEqual(["charge", "undo charge of undefined"]);

  calls.length = 0;
  const other = { operation: "order", key: "order-2" };
  await guard
    .run(other, async (attempt) => {
      await attempt.step("charge", () => new (class Receipt {})());
      throw new Error("killed");
    })
    .catch(() => {});
  expect(await saga(guard, other, steps)).toMatchObject(expected);
  expect(calls).toEqual(["undo charge of undefined"]);
});

test("a saga whose outcomes have no room left can still be undone and parked", async () => {
  const { guard } = createScene({ maxOutcomeBytes: 2_000 });
  const broken = new Set(["undo"]);
  const steps = [
    {
      name: "charge",
      run: () => "x".repeat(1_650),
      undo: () => {
        if (broken.has("undo")) throw new Error("e".repeat(900));
      },
    },
    { name: "ship", run: () => Promise.reject(new Error("e".repeat(900))) },
  ];
  const parked = await saga(guard, request, steps);
  expect(parked).toMatchObject({ status: "parked", step: "charge" });
  expect(await saga(guard, request, steps)).toMatchObject({ status: "parked", error: { code: "not-kept" } });
  broken.clear();
  await guard.resolve({ ...subject, fence: (parked as { fence: number }).fence }, { status: "not-done" });
  expect(await saga(guard, request, steps)).toMatchObject({ status: "undone", step: "ship" });
});

test("an error that has no room in the record leaves the saga undone for duplicates too", async () => {
  const { guard } = createScene({ maxOutcomeBytes: 100 });
  const steps = [{ name: "charge", run: () => Promise.reject(new Error("e".repeat(900))) }];
  for (let calls = 0; calls < 2; calls++)
    expect(await saga(guard, request, steps)).toMatchObject({ status: "undone", step: "charge" });
});

test.each([
  ["a string", "sold out", "sold out"],
  ["an object that cannot be kept", { call() {} }, new Error("the step threw an object")],
  ["an error with a large cause", new Error("no", { cause: "x".repeat(9_000) }), new Error("no")],
  ["a large error", new Error("x".repeat(9_000)), new Error("x".repeat(1_000))],
  ["a symbol", Symbol("no"), new Error("the step threw Symbol(no)")],
  ["nothing", undefined, undefined],
])("a step that throws %s is undone with what can be kept of it", async (_, thrown, error) => {
  const { guard } = createScene();
  const steps = [{ name: "charge", run: () => Promise.reject(thrown) }];
  const undone = { status: "undone", step: "charge", error };
  expect(await saga(guard, request, steps)).toEqual(undone);
  expect(await saga(guard, request, steps)).toEqual(undone);
});

test("a list of steps that changed since runs and undoes nothing", async () => {
  const { guard } = createScene();
  const world = createWorld();
  const [reserve, charge, ship] = world.steps as [SagaStep, SagaStep, SagaStep];
  const down = { name: "charge", run: () => Promise.reject(new NevertwiceError("unavailable", "")) };
  await saga(guard, request, [reserve, down]);
  const before = [...world.effects];
  for (const steps of [
    [charge, ship],
    [{ ...reserve, name: "book" }, charge],
  ])
    expect(await saga(guard, request, steps)).toMatchObject({
      status: "unknown",
      reason: expect.stringContaining('"reserve"'),
    });
  expect(world.effects).toEqual(before);
  // Steps may be added behind those that are finished.
  expect(await saga(guard, request, [reserve, charge, ship])).toMatchObject({ status: "done" });

  const other = { ...request, key: "order-2" };
  const failing = createWorld(["ship", "undo charge"]);
  await saga(guard, other, failing.steps);
  const { fence = 0 } = (await guard.read({ ...subject, key: "order-2" })) ?? {};
  await guard.resolve({ ...subject, key: "order-2", fence }, { status: "not-done" });
  expect(await saga(guard, other, failing.steps.slice(1))).toMatchObject({
    status: "unknown",
    reason: expect.stringContaining('"reserve"'),
  });
  // A saga that is being undone finds its steps by name, wherever they are.
  failing.broken.clear();
  expect(await saga(guard, other, [...failing.steps].reverse())).toMatchObject({ status: "undone" });
  expect(failing.effects).toEqual(UNDONE);
});

test.each([
  ["forward", [], "done"],
  ["backward", ["ship"], "undone"],
] as const)("a process that cannot read an outcome does nothing, going %s", async (_, broken, end) => {
  const { guard, inner } = createScene();
  let isDown = true;
  const point = end === "done" ? "ship" : "undo charge";
  const world = createWorld(broken, {
    before(effect) {
      if (effect === point && isDown) throw new NevertwiceError("unavailable", "no store");
    },
  });
  await saga(guard, request, world.steps);
  isDown = false;
  const { length } = world.effects;
  const store: Store = {
    ...inner,
    async claim(claim) {
      const answer = await inner.claim(claim);
      if (answer.status !== "new" || answer.steps === undefined) return answer;
      return { ...answer, steps: answer.steps.map((step) => ({ ...step, outcome: "sealed" })) };
    },
  };
  const blind = createGuard({ store, namespace: "scene", purgeEveryMs: 0 });
  expect(await saga(blind, request, world.steps)).toMatchObject({
    status: "unknown",
    reason: expect.stringContaining("cannot be read"),
  });
  expect(world.effects).toHaveLength(length);
  expect(await saga(guard, request, world.steps)).toMatchObject({ status: end });
});

test("no step can change what another one gets", async () => {
  const { guard } = createScene();
  const seen: unknown[] = [];
  const steps = [
    { name: "reserve", run: () => ({ seat: 7 }) },
    {
      name: "charge",
      run: ({ outcomes }: RunContext) => {
        (outcomes.reserve as { seat: number }).seat = 8;
      },
    },
    { name: "ship", run: ({ outcomes }: RunContext) => void seen.push(outcomes.reserve) },
  ];
  expect(await saga(guard, request, steps)).toMatchObject({ outcomes: { reserve: { seat: 7 } } });
  expect(seen).toEqual([{ seat: 7 }]);
});

test("parks as often as there is room for a note, and also without", async () => {
  const { guard } = createScene({ maxSteps: 8 });
  const world = createWorld(["ship", "undo ship"]);
  for (let count = 0; count < 4; count++) {
    const parked = await saga(guard, request, world.steps);
    expect(parked).toMatchObject({ status: "parked", step: "ship" });
    const { fence } = parked as { fence: number };
    expect(await saga(guard, request, world.steps)).toEqual(parked);
    await guard.resolve({ ...subject, fence }, { status: "not-done" });
  }
  world.broken.clear();
  expect(await saga(guard, request, world.steps)).toMatchObject({ status: "undone" });
  expect(world.effects).toEqual(UNDONE);
});

test("an attempt whose parking another attempt outran leaves the record to that one", async () => {
  const { guard, inner } = createScene();
  const world = createWorld(["ship", "undo charge"]);
  const outran: unknown[] = [];
  const store: Store = {
    ...inner,
    async abandon(abandoned) {
      const isOurs = await inner.abandon(abandoned);
      if (outran.length === 0 && abandoned.as === "unknown")
        outran.push(await saga(guard, request, world.steps));
      return isOurs;
    },
  };
  const slow = createGuard({ store, namespace: "scene", purgeEveryMs: 0 });
  expect(await saga(slow, request, world.steps)).toMatchObject({ status: "unknown" });
  expect(outran).toMatchObject([{ status: "parked", step: "charge" }]);
  expect(await saga(slow, request, world.steps)).toEqual(outran[0]);
});

const run = () => 1;
test.each([
  ["no steps", [], "at least one step"],
  ["no list", { name: "a", run }, "must be an array"],
  ["a step without a name", [{ run }], "name of step 1"],
  ["a step without run", [{ name: "a" }], 'the run of step "a"'],
  ["an undo that is no function", [{ name: "a", run, undo: 1 }], "undo is 1"],
  ["an unknown member", [{ name: "a", run, redo: run }], '"redo"'],
  [
    "two steps of one name",
    [
      { name: "a", run },
      { name: "a", run },
    ],
    'called "a"',
  ],
  ["a reserved name", [{ name: "saga: undid a", run }], "reserved"],
  ["a long name", [{ name: "x".repeat(1_020), run }], "name"],
  ["too many steps", Array.from({ length: 50 }, (_, i) => ({ name: `${i}`, run, undo: run })), "102 steps"],
])("refuses %s", async (_, steps, message) => {
  const { guard } = createScene();
  const refused = saga(guard, request, steps as never);
  await expect(refused).rejects.toMatchObject({ code: "options-invalid" });
  await expect(refused).rejects.toThrow(message);
});

test.each(["onCompleted", "onFailure", "onUnavailable", "shorten", "encode", "decode"])(
  "refuses the option %s, which a saga decides itself",
  async (name) => {
    const { guard } = createScene();
    const refused = saga(guard, { ...request, [name]: "x" }, [{ name: "a", run }]);
    await expect(refused).rejects.toThrow(`${name} is not an option of a saga`);
  },
);

test("refuses a request that is none, a guard that is none, and retries that are none", async () => {
  const { guard } = createScene();
  const steps = [{ name: "a", run }];
  await expect(saga(guard, undefined as never, steps)).rejects.toMatchObject({ code: "options-invalid" });
  await expect(saga({} as never, request, steps)).rejects.toThrow("the guard is missing");
  await expect(saga({ tryRun: run } as never, request, steps)).rejects.toThrow("not made by createGuard");
  await expect(saga(guard, "order-1" as never, steps)).rejects.toThrow("the request is a string");
  await expect(saga(guard, { ...request, retry: { max: -1 } }, steps)).rejects.toThrow("max is -1");
  await expect(saga(guard, { ...request, key: "" }, steps)).rejects.toMatchObject({ code: "key-missing" });
});

test("a store that cannot keep steps is refused before anything runs", async () => {
  const { keepStep: _, ...inner } = memoryStore();
  const guard = createGuard({ store: inner });
  const world = createWorld();
  await expect(saga(guard, request, world.steps)).rejects.toMatchObject({ code: "options-invalid" });
  expect(world.effects).toEqual([]);
  expect((await guard.read(subject))?.state).toBe("released");
});
