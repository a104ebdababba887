/** Tests exactly what operators see and receive. */
import { expect, test } from "vitest";
import { NevertwiceError } from "../../src/core/errors.ts";
import type { Store, StoreRecord } from "../../src/core/store.ts";
import { createScene, lapse } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };
const START_FENCE = 1_700_000_000_000_000;

test("read returns every field of a record, and nothing else", async () => {
  const scene = createScene({ leaseMs: 1_000, retentionMs: 5_000, onLapsed: "hold" });
  await scene.settle(scene.guard.run(request, () => scene.sleep(100).then(() => "value")));
  expect(await scene.guard.read(request)).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{64}$/),
    keyHash: expect.stringMatching(/^[0-9a-f]{16}$/),
    operation: "charge",
    scope: "alice",
    key: "order-1",
    state: "completed",
    fence: START_FENCE,
    number: 1,
    held: true,
    claimedAt: 1_700_000_000_000,
    leaseLeftMs: 0,
    completedAt: 1_700_000_000_100,
    keptUntil: 1_700_000_005_100,
    outcome: { kind: "value", value: "value" },
    history: {
      attempts: [
        {
          number: 1,
          fence: START_FENCE,
          claimedAt: 1_700_000_000_000,
          renewals: 0,
          renewedAt: undefined,
          endedAt: 1_700_000_000_100,
          ended: "completed",
        },
      ],
      dropped: 0,
    },
  });
});

test("listUnknown requests lapsed records of its namespace, a hundred at a time by default", async () => {
  const { another, inner } = createScene();
  const asked: unknown[] = [];
  const store: Store = {
    ...inner,
    list(page) {
      asked.push(page);
      return Promise.resolve({ records: [], next: "there" });
    },
  };
  const guard = another({ store });
  expect(await guard.listUnknown()).toEqual({ records: [], next: "there", order: "newest-first" });
  await guard.listUnknown({ scope: "alice", limit: 1_000, after: "here" });
  expect(asked).toEqual([
    {
      namespace: "scene",
      scope: undefined,
      state: "lapsed",
      limit: 100,
      after: undefined,
      signal: undefined,
    },
    { namespace: "scene", scope: "alice", state: "lapsed", limit: 1_000, after: "here", signal: undefined },
  ]);
  await expect(guard.listUnknown({ limit: 1_001 })).rejects.toThrow("limit is 1001");
  const wrong = guard.listUnknown as (page: unknown) => Promise<unknown>;
  await expect(wrong({ scope: null })).rejects.toMatchObject({ code: "scope-missing" });
  for (const page of [{ scope: 5 }, { limit: 1.5 }, { limit: "5" }, { after: 5 }])
    await expect(wrong(page)).rejects.toMatchObject({ code: "options-invalid" });
});

test("forget of a scope reads page after page, and does not count records that disappeared in the meantime", async () => {
  const { another, inner } = createScene();
  const guard = another();
  for (const key of ["a", "b", "c"]) await guard.run({ ...request, key }, () => key);
  const pages: unknown[] = [];
  const store: Store = {
    ...inner,
    async list(page) {
      pages.push([page.scope, page.limit, page.after]);
      const all = (await inner.list?.({ ...page, after: undefined }))?.records ?? [];
      return page.after === undefined
        ? { records: all.slice(0, 2), next: "second" }
        : { records: all.slice(2), next: undefined };
    },
    forget: () => Promise.resolve(false),
    read: (id) => (pages.length === 1 ? Promise.resolve(undefined) : inner.read(id)),
  };
  expect(await another({ store }).forget({ scope: "alice" })).toEqual({ forgotten: 0, inFlight: 1 });
  expect(pages).toEqual([
    ["alice", 100, undefined],
    ["alice", 100, "second"],
  ]);
});

test("ready reads a record that cannot exist, and changes nothing", async () => {
  const { another, inner } = createScene();
  const ids: string[] = [];
  const store: Store = {
    ...inner,
    read(id) {
      ids.push(id);
      return inner.read(id);
    },
  };
  await another({ store }).ready();
  expect(ids).toEqual(["0".repeat(64)]);
});

test("an operator call throws unavailable with the cause whatever the store threw, and passes the store's own refusals on", async () => {
  const { another, inner } = createScene();
  const failingWith = (error: unknown) => another({ store: { ...inner, read: () => Promise.reject(error) } });
  await expect(failingWith(new Error("cut off")).read(request)).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("the store cannot answer: cut off."),
    cause: { message: "cut off" },
  });
  await expect(failingWith("no words").ready()).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("the store cannot answer: no words."),
    cause: "no words",
  });
  const full = new NevertwiceError("store-full", "no room");
  const { code, message } = full;
  await expect(failingWith(full).forget(request)).rejects.toMatchObject({
    code,
    message,
    operation: "charge",
  });
});

test("resolve does not report a decision as made if the store refuses it or does not confirm it", async () => {
  for (const [decision, method] of [
    [{ status: "done", value: 1 }, "complete"],
    [{ status: "not-done" }, "abandon"],
  ] as const) {
    const scene = createScene({ onLapsed: "hold", completeWaitMs: 20, leaseMs: 60_000 });
    const fence = await lapse(scene, request);
    const answering = (answer: () => Promise<boolean>) =>
      scene.another({ store: { ...scene.inner, [method]: answer } });
    const hanging = answering(() => new Promise(() => {}));
    await expect(scene.settle(hanging.resolve({ ...request, fence }, decision))).rejects.toMatchObject({
      code: "unavailable",
    });
    await scene.advance(70_000);
    const { fence: next = 0 } = (await scene.guard.read(request)) ?? {};
    const refusing = answering(() => Promise.resolve(false));
    expect(await scene.settle(refusing.resolve({ ...request, fence: next }, decision))).toBe(false);
  }
});

test("resolve requires a fence that is a whole number", async () => {
  const scene = createScene({ onLapsed: "hold" });
  const fence = await lapse(scene, request);
  const resolve = scene.guard.resolve as (subject: object, decision: object) => Promise<boolean>;
  for (const wrong of [undefined, null, String(fence), fence + 0.5, Number.NaN])
    await expect(resolve({ ...request, fence: wrong }, { status: "not-done" })).rejects.toMatchObject({
      code: "options-invalid",
    });
  expect((await scene.guard.read(request))?.fence).toBe(fence);
});

test("a stale decision changes nothing, and a decision is reported to the observer with the fence of its own claim", async () => {
  const scene = createScene({ onLapsed: "hold" });
  const fence = await lapse(scene, request);
  const decide = (given: number) =>
    scene.guard.resolve({ ...request, fence: given }, { status: "done", value: 1 });
  expect(await decide(fence + 1)).toBe(false);
  expect(await decide(fence)).toBe(true);
  expect(await decide(fence)).toBe(false);
  expect(scene.store.calls).toMatchObject({ claim: 3, complete: 1, abandon: 0, read: 1 });
  expect(scene.kinds()).toEqual(["claimed", "abandoned", "completed"]);
  expect(scene.events[2]).toMatchObject({ kind: "completed", fence: fence + 1 });
});

test("resolve returns false if the record is gone or was completed by another attempt", async () => {
  for (const found of [undefined, { state: "completed", token: "another's", outcome: "1" }]) {
    const scene = createScene({ onLapsed: "hold" });
    const fence = await lapse(scene, request);
    const guard = scene.another({
      store: {
        ...scene.inner,
        complete: () => Promise.resolve(false),
        read: () => Promise.resolve(found as StoreRecord | undefined),
      },
    });
    expect(await guard.resolve({ ...request, fence }, { status: "done", value: 1 })).toBe(false);
  }
});

test("forget refuses a subject without key or operation, and does not erase the scope", async () => {
  const { guard } = createScene();
  await guard.run(request, () => "kept");
  const forget = guard.forget as (what: unknown) => Promise<unknown>;
  const { operation, scope, key } = request;
  await expect(forget({ operation, scope })).rejects.toMatchObject({ code: "key-missing" });
  await expect(forget({ scope, key })).rejects.toMatchObject({ code: "options-invalid" });
  await expect(forget({ scope, tenant: "alice" })).rejects.toMatchObject({ code: "options-invalid" });
  await expect(forget(null)).rejects.toMatchObject({ code: "options-invalid" });
  expect(await guard.run(request, () => "again")).toBe("kept");
});
