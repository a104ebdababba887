/** Tests functions behind a guard: the value or the error that a second call gets. */
import { describe, expect, test } from "vitest";
import type { GuardOptions } from "../../../src/core/engine.ts";
import type { GuardEvent } from "../../../src/core/observer.ts";
import { createGuard } from "../../../src/functions/guard.ts";
import { memoryStore } from "../../../src/stores/memory.ts";
import { faultyStore } from "../../../src/testing/faulty-store.ts";
import { manualClock } from "../../../src/testing/manual-clock.ts";
import { gate } from "./service.ts";

interface Order {
  readonly id: string;
  readonly amount: number;
}

function scene(options: Partial<GuardOptions> = {}) {
  const events: GuardEvent[] = [];
  const guard = createGuard({
    store: memoryStore(),
    purgeEveryMs: 0,
    observer: (event) => events.push(event),
    ...options,
  });
  return { guard, events };
}

const byId = { operation: "charge", key: (order: Order) => order.id };
const order: Order = { id: "order-17", amount: 100 };

describe("a wrapped function", () => {
  test("FW-01 that has ended returns its stored value to an equal call", async () => {
    let runs = 0;
    const charge = scene().guard.wrap(({ amount }: Order) => ({ charged: amount, run: ++runs }), byId);
    expect([await charge(order), await charge({ ...order })]).toEqual([
      { charged: 100, run: 1 },
      { charged: 100, run: 1 },
    ]);
    expect(runs).toBe(1);
  });

  test("FW-02 that still runs throws a retryable error to a second call that does not wait", async () => {
    const door = gate();
    const charge = scene().guard.wrap(
      async (_: Order) => {
        await door.pass();
        return "charged";
      },
      { ...byId, onPending: "reject" },
    );
    const first = charge(order);
    await door.reached();
    await expect(charge(order)).rejects.toMatchObject({ code: "pending", retryable: true });
    door.open();
    expect([await first, await charge(order)]).toEqual(["charged", "charged"]);
  });

  test("FW-03 that throws runs again, and stores no outcome", async () => {
    const { guard } = scene();
    let runs = 0;
    const charge = guard.wrap((_: Order) => {
      runs++;
      if (runs === 1) throw new TypeError("declined");
      return "charged";
    }, byId);
    await expect(charge(order)).rejects.toThrow(new TypeError("declined"));
    expect(await guard.read({ operation: "charge", key: order.id })).toMatchObject({
      state: "released",
      outcome: undefined,
    });
    expect(await charge(order)).toBe("charged");
    expect(runs).toBe(2);
  });

  test("FW-04 that is called without a key throws an error, and does not run", async () => {
    let runs = 0;
    const charge = scene().guard.wrap(() => ++runs, { operation: "charge", keyFrom: ["0.id"] }) as (
      order: Partial<Order>,
    ) => Promise<number>;
    await expect(charge({ amount: 100 })).rejects.toMatchObject({ code: "key-missing" });
    await expect(charge({ id: "", amount: 100 })).rejects.toMatchObject({ code: "key-missing" });
    expect(runs).toBe(0);
  });

  test("FW-05 that is called with other arguments under one key throws an error", async () => {
    let runs = 0;
    const charge = scene().guard.wrap((_: Order) => ++runs, { ...byId, fingerprint: ({ amount }) => amount });
    await charge(order);
    await expect(charge({ ...order, amount: 200 })).rejects.toMatchObject({
      code: "conflict",
      retryable: false,
    });
    expect([await charge(order), runs]).toEqual([1, 1]);
  });

  test("FW-06 whose first call did not end within its lease runs again", async () => {
    const clock = manualClock();
    const store = memoryStore({ clock });
    const door = gate();
    const [first, second] = [scene({ store }), scene({ store })];
    let runs = 0;
    const work = async (_: Order) => {
      if (++runs === 1) await door.pass();
      return runs;
    };
    const lost = first.guard.wrap(work, byId)(order);
    await door.reached();
    clock.advance(30_000);
    expect(await second.guard.wrap(work, byId)(order)).toBe(2);
    expect(second.events).toMatchObject([
      { kind: "lapsed" },
      { kind: "taken-over", number: 2 },
      { kind: "completed" },
    ]);
    door.open();
    // The first call ends too late, and gets the stored value.
    expect([await lost, runs]).toEqual([2, 2]);
  });

  test("FW-07 whose store fails throws an error, and does not run", async () => {
    const store = faultyStore(memoryStore(), { rates: { refuse: 1 } });
    let runs = 0;
    const charge = scene({ store }).guard.wrap((_: Order) => ++runs, byId);
    await expect(charge(order)).rejects.toMatchObject({ code: "unavailable", retryable: true, status: 503 });
    expect(runs).toBe(0);
  });

  test("FW-08 whose value cannot be stored throws not-kept to later calls, and does not run again", async () => {
    const { guard, events } = scene();
    let runs = 0;
    const charge = guard.wrap((_: Order) => {
      runs++;
      return { receipt: () => "a function" };
    }, byId);
    expect((await charge(order)).receipt()).toBe("a function");
    expect(events).toContainEqual(expect.objectContaining({ kind: "not-kept" }));
    await expect(charge(order)).rejects.toMatchObject({ code: "not-kept", retryable: false });
    expect(runs).toBe(1);
  });

  test("FW-09 is independent of another function with the same key", async () => {
    const { guard } = scene();
    const charge = guard.wrap((_: Order) => "charged", byId);
    const ship = guard.wrap((_: Order) => "shipped", { ...byId, operation: "ship" });
    expect([await charge(order), await ship(order), await charge(order)]).toEqual([
      "charged",
      "shipped",
      "charged",
    ]);
  });
});
