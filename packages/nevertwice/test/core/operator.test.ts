/** Tests what operators do to records (read, forget, list), and how a guard starts, purges and closes. */
import { expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };

test("read returns a record in every state, without its token", async () => {
  const scene = createScene({ leaseMs: 1_000, retentionMs: 5_000 });
  expect(await scene.guard.read(request)).toBeUndefined();
  const run = scene.guard.run(request, () => scene.sleep(100).then(() => ({ receipt: 1 })));
  await scene.advance(50);
  expect(await scene.guard.read(request)).toMatchObject({
    state: "pending",
    number: 1,
    held: false,
    leaseLeftMs: 950,
    outcome: undefined,
  });
  await scene.settle(run);
  const view = await scene.guard.read(request);
  expect(view).toMatchObject({
    operation: "charge",
    scope: "alice",
    key: "order-1",
    state: "completed",
    leaseLeftMs: 0,
    outcome: { kind: "value", value: { receipt: 1 } },
  });
  expect((view?.keptUntil ?? 0) - (view?.completedAt ?? 0)).toBe(5_000);
  expect(JSON.stringify(view)).not.toContain("token");
});

test("forget removes a released key, leaves a marker for a completed one, and refuses a running one", async () => {
  const scene = createScene();
  expect(await scene.guard.forget(request)).toBe(false);
  await scene.guard.run(request, () => Promise.reject(new Error("no"))).catch(() => {});
  expect(await scene.guard.forget(request)).toBe(true);
  expect(await scene.guard.read(request)).toBeUndefined();

  const run = scene.guard.run(request, () => scene.sleep(100).then(() => "secret"));
  await scene.advance(10);
  expect(await scene.guard.forget(request)).toBe(false);
  await scene.settle(run);
  expect(await scene.guard.forget(request)).toBe(true);
  expect(await scene.guard.read(request)).toMatchObject({
    state: "completed",
    key: undefined,
    scope: undefined,
    outcome: { kind: "not-kept", reason: "forgotten" },
  });
  expect(await scene.guard.tryRun(request, () => "again")).toEqual({
    status: "not-kept",
    reason: "forgotten",
  });
});

test("forget of a scope erases all of it, page by page, and reports the number of keys in flight", async () => {
  const scene = createScene();
  for (let i = 0; i < 250; i++) await scene.guard.run({ ...request, key: `k${i}` }, () => i);
  await scene.guard.run({ ...request, scope: "bob" }, () => "bob's");
  const running = scene.guard.run({ ...request, key: "running" }, () => scene.sleep(100));
  await scene.advance(1);
  expect(await scene.guard.forget({ scope: "alice" })).toEqual({ forgotten: 250, inFlight: 1 });
  await scene.settle(running);
  expect(await scene.guard.forget({ scope: "alice" })).toEqual({ forgotten: 1, inFlight: 0 });
  expect(await scene.guard.run({ ...request, scope: "bob" }, () => "again")).toBe("bob's");
  await expect(scene.guard.forget({ scope: "" })).rejects.toMatchObject({ code: "scope-missing" });
});

test("operator calls throw options-invalid if the store has no list or forget", async () => {
  const scene = createScene();
  const { list: _, forget: __, ...plain } = scene.inner;
  const guard = scene.another({ store: plain as Store });
  await guard.run(request, () => 1);
  await expect(guard.listUnknown()).rejects.toMatchObject({ code: "options-invalid" });
  await expect(guard.forget({ scope: "alice" })).rejects.toMatchObject({ code: "options-invalid" });
  await expect(guard.forget(request)).rejects.toMatchObject({ code: "options-invalid" });
  await expect(scene.guard.listUnknown({ limit: 0 })).rejects.toMatchObject({ code: "options-invalid" });
});

test("operator calls refuse arguments that name no record, and unknown members", async () => {
  const { guard } = createScene();
  const calls = guard as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  for (const [name, ...args] of [
    ["read", undefined],
    ["read", null],
    ["read", { ...request, tenant: "alice" }],
    ["forget", undefined],
    ["forget", "alice"],
    ["forget", { ...request, tenant: "alice" }],
    ["resolve", undefined, { status: "not-done" }],
    ["listUnknown", null],
    ["listUnknown", { state: "lapsed" }],
    ["listUnknown", { limit: 1_001 }],
  ] as const) {
    await expect(calls[name]?.(...args), `${name} ${JSON.stringify(args)}`).rejects.toMatchObject({
      code: "options-invalid",
    });
  }
  await expect(guard.listUnknown({ scope: "" })).rejects.toMatchObject({ code: "scope-missing" });
  await expect(guard.forget({} as { scope: string })).rejects.toMatchObject({ code: "scope-missing" });
});

test("ready resolves when the store answers, and throws unavailable when it does not", async () => {
  const scene = createScene({ storeTimeoutMs: 50 });
  await scene.guard.ready();
  scene.store.plan("read", "hang");
  await expect(scene.settle(scene.guard.ready())).rejects.toMatchObject({ code: "unavailable" });
});

test("purges in batches in the background, and reports the number of removed records to the observer", async () => {
  const scene = createScene({ retentionMs: 1_000, purgeEveryMs: 60_000 });
  for (let i = 0; i < 1_200; i++) await scene.guard.run({ ...request, key: `k${i}` }, () => i);
  await scene.advance(70_000);
  expect(scene.events.filter(({ kind }) => kind === "purged")).toEqual([{ kind: "purged", removed: 1_200 }]);
  expect(scene.store.calls.purge).toBeGreaterThan(2);
  await scene.guard.close();
});

test("retries a failed purge at its next time; purgeEveryMs 0 turns purging off", async () => {
  const scene = createScene({ retentionMs: 1_000, purgeEveryMs: 10_000 });
  scene.store.plan("purge", "refuse");
  await scene.guard.run(request, () => 1);
  await scene.advance(30_000);
  expect(scene.kinds()).toContain("purged");
  await scene.guard.close();
  const off = createScene();
  await off.advance(1_000_000);
  expect(off.store.calls.purge).toBe(0);
});

test("close accepts no new work, lets running work finish, and wakes waiters with guard-closed", async () => {
  const scene = createScene({ waitMs: 60_000, drainMs: 5_000 });
  const owner = scene.another().run({ ...request, key: "elsewhere" }, () => scene.sleep(10_000));
  const running = scene.guard.run(request, () => scene.sleep(1_000).then(() => "finished"));
  await scene.advance(1);
  const waiter = scene.guard.run({ ...request, key: "elsewhere" }, () => 1);
  waiter.catch(() => {});
  await scene.advance(1);
  const closing = scene.guard.close();
  expect(scene.guard.close()).toBe(closing);
  await expect(scene.guard.run({ ...request, key: "new" }, () => 1)).rejects.toMatchObject({
    code: "guard-closed",
  });
  await expect(scene.guard.read(request)).rejects.toMatchObject({ code: "guard-closed" });
  expect(await scene.settle(closing)).toEqual([]);
  await expect(waiter).rejects.toMatchObject({ code: "guard-closed" });
  expect(await running).toBe("finished");
  expect(scene.world.now()).toBeLessThan(1_100);
  expect(await scene.another().run(request, () => "again")).toBe("finished");
  await scene.settle(owner);
});

test("close: fires the signal of work that outlives drainMs and reports it, and its key lapses", async () => {
  const scene = createScene({ drainMs: 100, leaseMs: 1_000 });
  let reason: unknown;
  scene.guard
    .run(
      request,
      ({ signal }) =>
        new Promise(() => {
          signal.addEventListener("abort", () => {
            reason = signal.reason;
          });
        }),
    )
    .catch(() => {});
  await scene.advance(1);
  const left = await scene.settle(scene.guard.close());
  expect(left).toEqual([
    { operation: "charge", keyHash: expect.stringMatching(/^[0-9a-f]{16}$/), fence: expect.any(Number) },
  ]);
  expect(reason).toBe("guard-closed");
  await scene.advance(1_000);
  expect(await scene.another().run(request, ({ number }) => number)).toBe(2);
});

test("close ends the background retries after drainMs", async () => {
  const scene = createScene({ drainMs: 200, completeWaitMs: 10 });
  for (let i = 0; i < 99; i++) scene.store.plan("complete", "refuse");
  await scene.settle(scene.guard.run(request, () => 1));
  await scene.settle(scene.guard.close());
  const { complete } = scene.store.calls;
  await scene.advance(60_000);
  expect(scene.store.calls.complete).toBe(complete);
});

test("close leaves the store open", async () => {
  const scene = createScene();
  await scene.guard.run(request, () => "kept");
  await scene.settle(scene.guard.close());
  expect(await scene.another().run(request, () => "again")).toBe("kept");
});

test("list pages through the records of a namespace, all of them or those of one state or scope", async () => {
  const { guard } = createScene();
  for (const key of ["a", "b", "c"]) await guard.run({ operation: "charge", scope: "anna", key }, () => key);
  await guard.run({ operation: "charge", scope: "bert", key: "a" }, () => 1);
  const failing = guard.run({ operation: "charge", scope: "bert", key: "b" }, () => Promise.reject("no"));
  await failing.catch(() => {});
  const keys = async (options: Parameters<typeof guard.list>[0]) =>
    (await guard.list(options)).records.map(({ scope, key }) => `${scope}/${key}`).sort();
  expect(await keys({})).toEqual(["anna/a", "anna/b", "anna/c", "bert/a", "bert/b"]);
  expect(await keys({ state: "released" })).toEqual(["bert/b"]);
  expect(await keys({ scope: "bert", state: "completed" })).toEqual(["bert/a"]);
  const first = await guard.list({ limit: 3 });
  const second = await guard.list({ limit: 3, after: first.next });
  expect(new Set([...first.records, ...second.records].map(({ id }) => id)).size).toBe(5);
  await expect(guard.list({ state: "done" as never })).rejects.toThrow('state is "done"');
});
