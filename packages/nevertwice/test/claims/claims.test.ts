/**
 * Tests claims whose work is done elsewhere: the token is all that the holder needs, and every process shares the
 * records.
 */
import { describe, expect, test } from "vitest";
import { createClaims } from "../../src/claims/index.ts";
import type { GuardEvent } from "../../src/core/observer.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore, manualClock } from "../../src/testing/index.ts";

function scene(options: Partial<Parameters<typeof createClaims>[0]> = {}) {
  const clock = manualClock();
  const store = faultyStore(memoryStore({ clock }));
  const events: GuardEvent[] = [];
  const observer = (event: GuardEvent) => void events.push(event);
  const claims = createClaims({ store, namespace: "shop", observer, ...options });
  const guard = createGuard({ store, namespace: "shop", onPending: "reject", purgeEveryMs: 0 });
  return { clock, store, claims, guard, events, another: () => createClaims({ store, namespace: "shop" }) };
}

const asked = { operation: "charge", scope: "anna", key: "order-1", fingerprint: { amount: 5 } };

async function claimed(claims: ReturnType<typeof createClaims>, more: object = {}) {
  const answer = await claims.claim({ ...asked, ...more });
  if (answer.status !== "new") throw new Error(`the claim was answered ${answer.status}`);
  return answer;
}

describe("a claim", () => {
  test("is completed with its token by any other process, and then answers guards and claims alike", async () => {
    const { claims, another, guard } = scene();
    const { id, token, fence, number } = await claimed(claims);
    expect([fence > 0, number]).toEqual([true, 1]);
    expect(await another().complete({ id, token, value: { receipt: 7 } })).toBe(true);
    expect(await guard.run(asked, () => "again")).toEqual({ receipt: 7 });
    expect(await claims.claim(asked)).toEqual({
      status: "completed",
      id,
      outcome: { kind: "value", value: { receipt: 7 } },
    });
  });

  test("derives the keys that a guard's attempt derives", async () => {
    const { claims, guard } = scene();
    const { id, token, deriveKey } = await claimed(claims);
    const derived = deriveKey("psp");
    await claims.abandon({ id, token, as: "released" });
    expect(await guard.run(asked, (attempt) => attempt.deriveKey("psp"))).toBe(derived);
  });

  test("that is repeated with its own token is the same claim", async () => {
    const { claims } = scene();
    const token = "a token that nobody guesses";
    const first = await claimed(claims, { token });
    const second = await claimed(claims, { token });
    expect([second.fence, second.number]).toEqual([first.fence, 1]);
  });

  test("is pending for others, a conflict for other content, and unknown once it lapsed and is held", async () => {
    const { claims, clock } = scene({ leaseMs: 1_000 });
    const { id, fence } = await claimed(claims, { onLapsed: "hold" });
    expect(await claims.claim(asked)).toEqual({ status: "pending", id, leaseLeftMs: 1_000, elapsedMs: 0 });
    expect(await claims.claim({ ...asked, fingerprint: { amount: 6 } })).toEqual({
      status: "conflict",
      id,
      state: "pending",
    });
    clock.advance(1_000);
    expect(await claims.claim(asked)).toEqual({ status: "unknown", id, fence });
  });

  test("that lapsed is taken over, and its first holder can no longer complete or renew it", async () => {
    const { claims, clock, events } = scene({ leaseMs: 1_000 });
    const first = await claimed(claims);
    clock.advance(1_000);
    const second = await claimed(claims);
    expect([second.tookOver, second.number, second.fence > first.fence]).toEqual([true, 2, true]);
    expect(await claims.complete({ ...first, value: "late" })).toBe(false);
    expect(await claims.renew(first)).toBe(false);
    expect(await claims.complete({ ...second, value: "now" })).toBe(true);
    expect(events.map(({ kind }) => kind)).toEqual([
      "claimed",
      "lapsed",
      "taken-over",
      "lease-lost",
      "completed",
    ]);
  });

  test("lasts longer when it is renewed", async () => {
    const { claims, clock } = scene({ leaseMs: 1_000 });
    const held = await claimed(claims);
    clock.advance(900);
    expect(await claims.renew({ ...held, leaseMs: 5_000 })).toBe(true);
    clock.advance(4_900);
    expect(await claims.claim(asked)).toMatchObject({ status: "pending", leaseLeftMs: 100 });
  });

  test("stores an error if it is completed with one", async () => {
    const { claims, guard } = scene();
    await claims.complete({ ...(await claimed(claims)), error: { code: "card-declined" } });
    await expect(guard.run(asked, () => "again")).rejects.toEqual({ code: "card-declined" });
  });

  test("is read by its id, without its token", async () => {
    const { claims } = scene();
    const { id, token } = await claimed(claims);
    const view = await claims.read(id);
    expect(view).toMatchObject({ id, state: "pending", key: "order-1", scope: "anna" });
    expect(JSON.stringify(view)).not.toContain(token);
    expect(await claims.read("0".repeat(64))).toBeUndefined();
  });
});

describe("a store that does not answer", () => {
  test("makes a claim without a token throw unavailable, and a claim that it may have granted is given back", async () => {
    const { claims, store, guard } = scene({ storeTimeoutMs: 20 });
    for (let i = 0; i < 3; i++) store.plan("claim", "lose-reply");
    await expect(claims.claim(asked)).rejects.toMatchObject({ code: "unavailable" });
    const { fingerprint: _, ...subject } = asked;
    await expect.poll(async () => (await guard.read(subject))?.state).toBe("released");
  });

  test("is called again to complete, and its first answer counts", async () => {
    const { claims, store } = scene({ storeTimeoutMs: 1_000 });
    const held = await claimed(claims);
    store.plan("complete", "lose-reply");
    expect(await claims.complete({ ...held, value: 1 })).toBe(true);
    for (let i = 0; i < 3; i++) store.plan("renew", "refuse");
    await expect(claims.renew(held)).rejects.toMatchObject({ code: "unavailable" });
  });
});

describe("a token that the caller supplied", () => {
  const token = "a token that nobody guesses";
  const stranger = { ...asked, token: "a token of somebody else" };

  test.each(["takeover", "hold"] as const)(
    "keeps its claim after an answer was lost, and no other caller is granted the key (%s)",
    async (onLapsed) => {
      const { claims, store, another } = scene({ storeTimeoutMs: 20, onLapsed });
      for (let i = 0; i < 2; i++) store.plan("claim", "lose-reply");
      const lost = claims.claim({ ...asked, token });
      await expect(lost).rejects.toMatchObject({
        code: "unavailable",
        id: expect.stringMatching(/^[0-9a-f]{64}$/),
      });
      expect(await another().claim({ ...asked, token })).toMatchObject({ status: "new", number: 1 });
      // By now the first process has made all its background calls to the store.
      await claims.close();
      expect(store.calls.abandon).toBe(0);
      expect(await another().claim(stranger)).toMatchObject({ status: "pending" });
    },
  );

  test("is abandoned as unrun by its owner, with the id from the error", async () => {
    const { claims, store } = scene({ storeTimeoutMs: 20 });
    for (let i = 0; i < 2; i++) store.plan("claim", "lose-reply");
    const { id } = await claims.claim({ ...asked, token }).catch((error) => error);
    expect(await claims.abandon({ id, token, as: "unrun" })).toBe(true);
    expect(await claims.claim(stranger)).toMatchObject({ status: "new", tookOver: false });
  });

  test.each(["released", "unknown", "unrun"] as const)(
    "that was abandoned as %s is answered token-spent",
    async (as) => {
      const { claims, another, events } = scene();
      const { id } = await claimed(claims, { token });
      await claims.abandon({ id, token, as });
      expect(await claims.claim({ ...asked, token })).toEqual({ status: "token-spent", id });
      expect(await another().claim({ ...asked, token })).toEqual({ status: "token-spent", id });
      expect(events.at(-1)).toMatchObject({ kind: "token-spent", operation: "charge" });
      // Other callers may still claim the key.
      expect(await claims.claim(stranger)).toMatchObject({ status: "new", number: 2 });
      expect(await claims.claim({ ...asked, token })).toMatchObject({ status: "pending" });
    },
  );

  test("is answered token-spent only if the store confirms it", async () => {
    const { claims, store } = scene({ storeTimeoutMs: 20 });
    const { id } = await claimed(claims, { token });
    await claims.abandon({ id, token, as: "released" });
    store.plan("read", "refuse");
    await expect(claims.claim({ ...asked, token })).rejects.toMatchObject({ code: "unavailable" });
  });

  test("may be given back if its owner says that no other process knows it", async () => {
    const { claims, store, guard } = scene({ storeTimeoutMs: 20 });
    for (let i = 0; i < 2; i++) store.plan("claim", "lose-reply");
    const lost = claims.claim({ ...asked, token, giveBack: true });
    await expect(lost).rejects.toMatchObject({ code: "unavailable" });
    await expect(lost).rejects.not.toHaveProperty("id");
    const { fingerprint: _, ...subject } = asked;
    await expect.poll(async () => (await guard.read(subject))?.state).toBe("released");
  });
});

describe("invalid arguments are refused by name", () => {
  const held = { id: "0".repeat(64), token: "a token that nobody guesses" };
  test.each([
    ["a short token", () => scene().claims.claim({ ...asked, token: "short" }), "token has 5 characters"],
    ["an id in another format", () => scene().claims.renew({ ...held, id: "../keys" }), "id must be the 64"],
    ["an unknown way to abandon", () => scene().claims.abandon({ ...held, as: "done" as never }), "as is"],
    ["a lease of 0", () => scene().claims.renew({ ...held, leaseMs: 0 }), "leaseMs is 0"],
    ["an empty key", () => scene().claims.claim({ ...asked, key: "" }), "key-missing"],
  ])("%s", async (_, call, message) => {
    await expect(call()).rejects.toThrow(message);
  });
});
