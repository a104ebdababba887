/** Claims whose work is done elsewhere: the token is all that its holder needs, and the records are everybody's. */
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
  test("is completed by its token, through any other copy, and answers guards and claims alike", async () => {
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

  test("that is sent again with its own token is the same claim", async () => {
    const { claims } = scene();
    const token = "a token that nobody guesses";
    const first = await claimed(claims, { token });
    const second = await claimed(claims, { token });
    expect([second.fence, second.number]).toEqual([first.fence, 1]);
  });

  test("is pending for others, a conflict for other content, and unknown once it lapsed and is held", async () => {
    const { claims, clock } = scene({ leaseMs: 1_000 });
    const { id, fence } = await claimed(claims, { onLapsed: "hold" });
    expect(await claims.claim(asked)).toEqual({ status: "pending", id, leaseLeftMs: 1_000 });
    expect(await claims.claim({ ...asked, fingerprint: { amount: 6 } })).toEqual({
      status: "conflict",
      id,
      state: "pending",
    });
    clock.advance(1_000);
    expect(await claims.claim(asked)).toEqual({ status: "unknown", id, fence });
  });

  test("that lapsed is taken over, and its first holder completes and renews no more", async () => {
    const { claims, clock, events } = scene({ leaseMs: 1_000 });
    const first = await claimed(claims);
    clock.advance(1_000);
    const second = await claimed(claims);
    expect([second.tookOver, second.number, second.fence > first.fence]).toEqual([true, 2, true]);
    expect(await claims.complete({ ...first, value: "late" })).toBe(false);
    expect(await claims.renew(first)).toBe(false);
    expect(await claims.complete({ ...second, value: "now" })).toBe(true);
    expect(events.map(({ kind }) => kind)).toEqual(["claimed", "taken-over"]);
  });

  test("is held longer by renewing it", async () => {
    const { claims, clock } = scene({ leaseMs: 1_000 });
    const held = await claimed(claims);
    clock.advance(900);
    expect(await claims.renew({ ...held, leaseMs: 5_000 })).toBe(true);
    clock.advance(4_900);
    expect(await claims.claim(asked)).toMatchObject({ status: "pending", leaseLeftMs: 100 });
  });

  test("keeps an error, if it is completed with one", async () => {
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
  test("makes a claim unavailable, and what it may have granted is given back", async () => {
    const { claims, store, guard } = scene({ storeTimeoutMs: 20 });
    for (let i = 0; i < 3; i++) store.plan("claim", "lose-reply");
    await expect(claims.claim(asked)).rejects.toMatchObject({ code: "unavailable" });
    const { fingerprint: _, ...subject } = asked;
    await expect.poll(async () => (await guard.read(subject))?.state).toBe("released");
  });

  test("is asked again when it is to complete, and the answer of the first time counts", async () => {
    const { claims, store } = scene({ storeTimeoutMs: 20 });
    const held = await claimed(claims);
    store.plan("complete", "lose-reply");
    expect(await claims.complete({ ...held, value: 1 })).toBe(true);
    for (let i = 0; i < 3; i++) store.plan("renew", "refuse");
    await expect(claims.renew(held)).rejects.toMatchObject({ code: "unavailable" });
  });
});

describe("what is wrong is refused by name", () => {
  const held = { id: "0".repeat(64), token: "a token that nobody guesses" };
  test.each([
    ["a short token", () => scene().claims.claim({ ...asked, token: "short" }), "token has 5 characters"],
    ["an id of another form", () => scene().claims.renew({ ...held, id: "../keys" }), "id must be the 64"],
    [
      "a way to end that there is not",
      () => scene().claims.abandon({ ...held, as: "done" as never }),
      "as is",
    ],
    ["a lease of no length", () => scene().claims.renew({ ...held, leaseMs: 0 }), "leaseMs is 0"],
    ["a key that is empty", () => scene().claims.claim({ ...asked, key: "" }), "key-missing"],
  ])("%s", async (_, call, message) => {
    await expect(call()).rejects.toThrow(message);
  });
});
