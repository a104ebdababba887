/** Tests the saga of examples/saga/saga.js, which docs/stateless-handlers.md shows: shipped or undone, and never both. */
import { expect, test } from "vitest";
import { NotYet, Refused, runSaga } from "../../../../examples/saga/saga.js";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type FaultyStore, faultyStore } from "../../src/testing/faulty-store.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { deferred } from "../deferred.ts";
import { text } from "../documents.ts";

const STEPS = ["reserve", "charge", "ship"];
const SHIPPED = ["reserve", "charge", "ship"];
const UNDONE = ["reserve", "charge", "undo charge", "undo reserve"];
/** All that a saga does in the store. */
const OPERATIONS = ["decide", "reserve", "charge", "ship", "undo charge", "undo reserve"];

/** Another system that remembers keys, as payment providers do, and a warehouse that may refuse. */
function createWorld({ isOpen }: { isOpen: boolean }) {
  const effects: string[] = [];
  const known = new Set<string>();
  const world = {
    effects,
    isOpen,
    async act(operation: string, key: string) {
      if (operation === "ship" && !world.isOpen) throw new Refused("the warehouse is closed");
      if (!known.has(key)) effects.push(operation);
      known.add(key);
    },
  };
  return world;
}

type World = ReturnType<typeof createWorld>;

function createScene() {
  const clock = manualClock();
  const inner = memoryStore({ clock });
  /** A process of its own: `way` is what lies between it and the store. */
  const worker = (way: (store: Store) => Store = (store) => store): Guard =>
    createGuard({ store: way(inner), purgeEveryMs: 0, drainMs: 0, completeWaitMs: 20 });
  return { clock, worker };
}

const order = (guard: Guard, world: Pick<World, "act">) =>
  runSaga(guard, { key: "order-1", steps: STEPS, act: world.act });

/** Runs it until it answers, as a queue delivers a message until it is done. */
async function comeAgain(guard: Guard, world: World): Promise<"done" | "undone"> {
  for (;;) {
    try {
      return await order(guard, world);
    } catch (error) {
      if (!(error instanceof NotYet)) throw error;
    }
  }
}

/** Calls `onMet` whenever the store is asked to do this, before it does; the first time for this operation. */
function meeting(
  store: Store,
  method: "claim" | "complete",
  operation: string,
  onMet: (isOfOperation: boolean) => void,
): Store {
  const names = new Map<string, string>();
  let hasBegun = false;
  const note = (asked: string, id: string) => {
    if (asked !== method) return;
    const isOfOperation = names.get(id) === operation;
    hasBegun ||= isOfOperation;
    if (hasBegun) onMet(isOfOperation);
  };
  return {
    ...store,
    claim(request) {
      names.set(request.id, request.parts?.operation ?? "");
      note("claim", request.id);
      return store.claim(request);
    },
    complete(request) {
      note("complete", request.id);
      return store.complete(request);
    },
  };
}

const MOMENTS = OPERATIONS.flatMap((operation) =>
  (["claim", "complete"] as const).map((method) => ({ operation, method })),
);

/**
 * An outage of the whole store from a moment on; one that meets this call alone, as often as it is made; or one of all
 * calls of its kind that does not end for this worker, as on a way on which large requests are lost.
 */
const OUTAGES = MOMENTS.flatMap((moment) =>
  (["refuse", "break-reply"] as const).flatMap((fault) =>
    (["from then on", "for it alone", "for all of its kind"] as const).map((reach) => ({
      ...moment,
      fault,
      reach,
    })),
  ),
);

test.each(OUTAGES)(
  "an outage ($fault) at the $method of $operation, $reach, decides nothing",
  async ({ operation, method, fault, reach }) => {
    const { clock, worker } = createScene();
    let faulty: FaultyStore | undefined;
    let isOut = true;
    const guard = worker((store) => {
      const made = faultyStore(store);
      faulty = made;
      return meeting(made, method, operation, (isOfOperation) => {
        if (!isOut) return;
        if (reach === "from then on") made.setRates({ [fault]: 1 });
        else if (isOfOperation || reach === "for all of its kind") made.plan(method, fault);
      });
    });
    const world = createWorld({ isOpen: false });
    const first = await order(guard, world).catch((error: unknown) => error);
    if (first !== "undone") expect(first).toBeInstanceOf(NotYet);
    const hasUndone = world.effects.some((effect) => effect.startsWith("undo "));
    // It could be shipped now. Whatever was decided before stands.
    world.isOpen = true;
    const isCutOff = reach === "for all of its kind";
    const mend = () => {
      isOut = false;
      faulty?.setRates({});
    };
    // A worker that stays cut off never gets to record what it knows: another takes over from what is recorded.
    if (isCutOff) clock.advance(guard.policy.leaseMs);
    else mend();
    const unaffected = worker();
    const end = await comeAgain(unaffected, world);
    mend();
    expect(world.effects).toEqual(end === "done" ? SHIPPED : UNDONE);
    if (hasUndone) expect(end).toBe("undone");
    expect(await comeAgain(guard, world)).toBe(end);
    await Promise.all([guard.close(), unaffected.close()]);
  },
);

test.each(MOMENTS.flatMap((moment) => [true, false].map((isOpen) => ({ ...moment, isOpen }))))(
  "a worker that is killed at the $method of $operation leaves the rest to the next (can be shipped: $isOpen)",
  async ({ operation, method, isOpen }) => {
    const { clock, worker } = createScene();
    const world = createWorld({ isOpen });
    const killed = deferred();
    const dying = worker((store) => {
      const faulty = faultyStore(store);
      return meeting(faulty, method, operation, (isOfOperation) => {
        if (!isOfOperation) return;
        // A process that is no more asks nothing more.
        faulty.setRates({ hang: 1 });
        killed.resolve();
      });
    });
    const first = order(dying, world);
    await Promise.race([killed.promise, first]);
    clock.advance(dying.policy.leaseMs);
    const next = worker();
    expect(await comeAgain(next, world)).toBe(isOpen ? "done" : "undone");
    expect(world.effects).toEqual(isOpen ? SHIPPED : UNDONE);
    first.catch(() => {});
    await Promise.all([dying.close(), next.close()]);
  },
);

test.each([true, false])(
  "workers that race end the same, with each effect once (can be shipped: %s)",
  async (isOpen) => {
    const { worker } = createScene();
    const world = createWorld({ isOpen });
    const guards = Array.from({ length: 8 }, () => worker());
    const ends = await Promise.all(guards.map((guard) => comeAgain(guard, world)));
    expect(new Set(ends)).toEqual(new Set([isOpen ? "done" : "undone"]));
    expect(world.effects).toEqual(isOpen ? SHIPPED : UNDONE);
    await Promise.all(guards.map((guard) => guard.close()));
  },
);

test("a worker that was paused while another took over follows what that one decided", async () => {
  const { clock, worker } = createScene();
  const world = createWorld({ isOpen: false });
  const [paused, resume] = [deferred(), deferred()];
  const slow = worker();
  const first = order(slow, {
    async act(operation, key) {
      await world.act(operation, key);
      if (operation !== "charge") return;
      paused.resolve();
      await resume.promise;
    },
  });
  await paused.promise;
  clock.advance(slow.policy.leaseMs);
  const next = worker();
  expect(await comeAgain(next, world)).toBe("undone");
  world.isOpen = true;
  resume.resolve();
  const late = await first.catch((error: unknown) => error);
  if (late !== "undone") expect(late).toBeInstanceOf(NotYet);
  expect(world.effects).toEqual(UNDONE);
  await Promise.all([slow.close(), next.close()]);
});

test("an error that leaves open whether a step was taken undoes nothing, and is tried again with the same key", async () => {
  const { worker } = createScene();
  const guard = worker();
  const world = createWorld({ isOpen: true });
  let lost = 1;
  const losing = {
    async act(operation: string, key: string) {
      await world.act(operation, key);
      if (operation === "charge" && lost-- > 0) throw new Error("the answer was lost");
    },
  };
  await expect(order(guard, losing)).rejects.toThrow("the answer was lost");
  expect(world.effects).toEqual(["reserve", "charge"]);
  expect(await order(guard, losing)).toBe("done");
  expect(world.effects).toEqual(SHIPPED);
  await guard.close();
});

test("docs/stateless-handlers.md shows the very code that is tested here", async () => {
  expect(await text("docs/stateless-handlers.md")).toContain(await text("examples/saga/saga.js"));
});
