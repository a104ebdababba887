/** Tests answers without a promise: when a guard uses them, and that nobody else can tell. */
import { describe, expect, test, vi } from "vitest";
import { type DirectStore, offerDirect } from "../../src/core/direct-store.ts";
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const REQUEST = { operation: "charge", key: "order-1" };

function counted(store: Store, direct?: Partial<DirectStore>) {
  const calls = { claim: 0, complete: 0 };
  const own: Store = {
    ...store,
    claim(request) {
      calls.claim++;
      return store.claim(request);
    },
    complete(request) {
      calls.complete++;
      return store.complete(request);
    },
  };
  if (direct !== undefined) offerDirect(own, { claim: () => undefined, ...direct });
  return { store: own, calls };
}

describe("a guard on the memory store", () => {
  test("claims before `run` returns, and starts the work afterwards", async () => {
    const guard = createGuard({ store: memoryStore() });
    let hasStarted = false;
    const running = guard.run(REQUEST, async () => {
      hasStarted = true;
    });
    expect(hasStarted).toBe(false);
    expect(await guard.read(REQUEST)).toMatchObject({ state: "pending" });
    await running;
    expect(hasStarted).toBe(true);
  });

  test("gives every caller a value of its own", async () => {
    const guard = createGuard({ store: memoryStore() });
    const returned = { lines: [{ price: 420 }] };
    const first = await guard.run(REQUEST, () => returned);
    returned.lines.length = 0;
    (first.lines[0] as { price: number }).price = 1;
    const second = await guard.run(REQUEST, () => returned);
    expect(second).toEqual({ lines: [{ price: 420 }] });
    second.lines.pop();
    expect(await guard.run(REQUEST, () => returned)).toEqual({ lines: [{ price: 420 }] });
  });

  test("shows operators and other users of the store the outcome as text", async () => {
    const store = memoryStore();
    const guard = createGuard({ store });
    await guard.run(REQUEST, () => ({ receipt: 7 }));
    const view = await guard.read(REQUEST);
    expect(view?.outcome).toEqual({ kind: "value", value: { receipt: 7 } });
    const [record] = (await store.list?.({ namespace: "default", limit: 1 }))?.records ?? [];
    expect(record?.outcome).toBe('["1vp",{"receipt":7}]');
    const claim = {
      id: record?.id ?? "",
      parts: record?.parts ?? (undefined as never),
      token: "t".repeat(16),
    };
    const terms = { leaseMs: 1_000, retentionMs: 1_000, hold: false };
    expect(await store.claim({ ...claim, ...terms })).toEqual({
      status: "completed",
      outcome: '["1vp",{"receipt":7}]',
    });
  });

  test("forgets the value with the record", async () => {
    const guard = createGuard({ store: memoryStore() });
    await guard.run(REQUEST, () => ({ secret: "4711" }));
    expect(await guard.forget(REQUEST)).toBe(true);
    expect(await guard.tryRun(REQUEST, () => 1)).toEqual({ status: "not-kept", reason: "forgotten" });
    expect(JSON.stringify(await guard.read(REQUEST))).not.toContain("4711");
  });

  test("gives a claim back if its caller leaves before the work starts", async () => {
    const guard = createGuard({ store: memoryStore() });
    const controller = new AbortController();
    const work = vi.fn();
    const left = guard.run({ ...REQUEST, signal: controller.signal }, work);
    controller.abort(new Error("the client went away"));
    await expect(left).rejects.toThrow("the client went away");
    expect(await guard.run(REQUEST, () => "next")).toBe("next");
    expect(work).not.toHaveBeenCalled();
  });

  test("gives a claim back if the guard closes before the work starts", async () => {
    const store = memoryStore();
    const guard = createGuard({ store });
    const work = vi.fn();
    const refused = guard.tryRun(REQUEST, work);
    const closed = guard.close();
    expect(await refused).toMatchObject({ status: "unavailable", error: { code: "guard-closed" } });
    expect(await closed).toEqual([]);
    expect(work).not.toHaveBeenCalled();
    expect(await createGuard({ store }).run(REQUEST, () => "next")).toBe("next");
  });

  test("answers store-full as any store does", async () => {
    const guard = createGuard({ store: memoryStore({ maxRecords: 1 }) });
    await guard.run(REQUEST, () => 1);
    await expect(guard.run({ ...REQUEST, key: "order-2" }, () => 1)).rejects.toMatchObject({
      code: "store-full",
    });
  });
});

describe("direct answers", () => {
  test("are not used for a store that copies the members of another one", async () => {
    const { store, calls } = counted(memoryStore());
    await createGuard({ store }).run(REQUEST, () => 1);
    expect(calls).toEqual({ claim: 1, complete: 1 });
  });

  test("are not used while a method of the store is replaced", async () => {
    const store = memoryStore();
    const guard = createGuard({ store });
    const complete = vi.spyOn(store, "complete");
    await guard.run(REQUEST, () => 1);
    expect(complete).toHaveBeenCalledOnce();
    complete.mockRestore();
    expect(await guard.run(REQUEST, () => 2)).toBe(1);
  });

  test("may be about completed records alone: everything else goes to the store", async () => {
    const inner = memoryStore();
    const kept = new Map<string, string>();
    const { store, calls } = counted(inner, {
      claim: ({ id }) => {
        const outcome = kept.get(id);
        return outcome === undefined ? undefined : { status: "completed", outcome };
      },
    });
    const guard = createGuard({ store });
    expect(await guard.run(REQUEST, () => ({ receipt: 7 }))).toEqual({ receipt: 7 });
    expect(calls).toEqual({ claim: 1, complete: 1 });
    const [record] = (await inner.list?.({ namespace: "default", limit: 1 }))?.records ?? [];
    kept.set(record?.id ?? "", record?.outcome ?? "");
    expect(await guard.run(REQUEST, () => ({ receipt: 8 }))).toEqual({ receipt: 7 });
    expect(calls).toEqual({ claim: 1, complete: 1 });
  });

  test("that throw or refuse are asked for again through the store", async () => {
    const { store, calls } = counted(memoryStore(), {
      claim() {
        throw new Error("the file is busy");
      },
      complete: () => false,
    });
    const guard = createGuard({ store });
    expect(await guard.tryRun(REQUEST, () => 1)).toEqual({ status: "ran", value: 1, recorded: true });
    expect(calls).toEqual({ claim: 1, complete: 1 });
  });
});
