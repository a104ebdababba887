/**
 * Tests what observers receive about claims whose work is done elsewhere: each attempt starts once and ends at most
 * once.
 */
import { expect, test } from "vitest";
import { type Claims, createClaims } from "../../src/claims/index.ts";
import type { GuardEvent } from "../../src/core/observer.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore, manualClock } from "../../src/testing/index.ts";
import { seededRandom } from "../../src/testing/random.ts";

const LEASE_MS = 1_000;
const ASKED = { operation: "charge", key: "order-1", token: "a token that nobody guesses" };

function scene() {
  const clock = manualClock();
  const store = faultyStore(memoryStore({ clock }));
  const events: GuardEvent[] = [];
  const observer = (event: GuardEvent) => void events.push(event);
  const newServer = () => createClaims({ store, observer, leaseMs: LEASE_MS, purgeEveryMs: 0 });
  const kinds = () => events.map(({ kind }) => kind);
  return { clock, store, events, kinds, observer, newServer };
}

async function granted(claims: Claims, asked: object = {}) {
  const answer = await claims.claim({ ...ASKED, ...asked });
  if (answer.status !== "new") throw new Error(`the claim was answered ${answer.status}`);
  return { id: answer.id, token: answer.token, fence: answer.fence };
}

test("a claim that is renewed and completed is reported like a run", async () => {
  const { newServer, events, store } = scene();
  const claims = newServer();
  const { fence, ...held } = await granted(claims);
  await claims.renew({ ...held, leaseMs: 5_000 });
  await claims.complete({ ...held, value: 1 });
  const who = { operation: "charge", keyHash: held.id.slice(0, 16) };
  expect(events).toEqual([
    { ...who, kind: "claimed", fence, number: 1 },
    { ...who, kind: "renewed", fence, leaseMs: 5_000 },
    { ...who, kind: "completed", fence, ranMs: expect.any(Number) },
  ]);
  // The process that granted the claim remembers it, and does not read it from the store.
  expect(store.calls.read).toBe(0);
});

test("reports a repeated call only once", async () => {
  const { newServer, kinds } = scene();
  const claims = newServer();
  const held = await granted(claims);
  await granted(claims);
  for (let i = 0; i < 3; i++) expect(await claims.complete({ ...held, value: 1 })).toBe(true);
  expect(kinds()).toEqual(["claimed", "completed"]);
});

test("a claim granted through another createClaims is read, and reported with its operation, fence and time", async () => {
  const { newServer, events, store } = scene();
  const { fence, ...held } = await granted(newServer());
  events.length = 0;
  const other = newServer();
  expect(await other.renew(held)).toBe(true);
  expect(await other.abandon({ ...held, as: "unknown" })).toBe(true);
  const who = { operation: "charge", keyHash: held.id.slice(0, 16) };
  expect(events).toEqual([
    { ...who, kind: "renewed", fence, leaseMs: LEASE_MS },
    { ...who, kind: "abandoned", fence, as: "unknown" },
  ]);
  expect(store.calls.read).toBe(1);
});

test.each(["hang", "refuse"] as const)(
  "a failed read of the claim's owner (%s) costs the call nothing except its report",
  async (fault) => {
    const { newServer, store, kinds } = scene();
    const { fence: _, ...held } = await granted(newServer());
    store.plan("read", fault);
    const other = createClaims({ store, observer: () => {}, storeTimeoutMs: 100, purgeEveryMs: 0 });
    expect(await other.complete({ ...held, value: 1 })).toBe(true);
    expect([store.calls.read, store.calls.complete, kinds()]).toEqual([1, 1, ["claimed"]]);
  },
);

test("reads and remembers nothing without an observer", async () => {
  const { store } = scene();
  const one = createClaims({ store });
  const { fence: _, ...held } = await granted(one);
  await createClaims({ store }).complete({ ...held, value: 1 });
  expect(store.calls.read).toBe(0);
});

test("reports an outcome that cannot be stored as completed and as not kept", async () => {
  const { store, events, observer } = scene();
  const claims = createClaims({ store, observer, maxOutcomeBytes: 64 });
  await claims.complete({ ...(await granted(claims)), value: "x".repeat(100) });
  expect(events.map(({ kind }) => kind)).toEqual(["claimed", "completed", "not-kept"]);
});

test("guards report their renewals too", async () => {
  const { store, kinds, observer } = scene();
  const guard = createGuard({ store, observer, purgeEveryMs: 0 });
  await guard.run({ operation: "charge", key: "order-2" }, (attempt) => attempt.renew());
  expect(kinds()).toEqual(["claimed", "renewed", "completed"]);
});

test("each attempt starts once and ends at most once, and every other attempt is open or lapsed", async () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = seededRandom(seed);
    const { clock, events, newServer } = scene();
    const servers = [newServer(), newServer()];
    const held: { readonly id: string; readonly token: string }[] = [];
    for (let step = 0; step < 40; step++) {
      const server = random.pick(servers);
      const action = random.pick(["claim", "claim", "advance", "renew", "complete", "abandon"] as const);
      const one = held.length > 0 ? random.pick(held) : undefined;
      if (action === "claim") {
        const asked = { ...ASKED, key: `order-${random.between(1, 4)}`, token: `${ASKED.token} ${step}` };
        const answer = await server.claim(asked);
        if (answer.status !== "new") continue;
        // The claim is repeated, as if its answer had been lost.
        if (random.chance(0.3)) await server.claim(asked);
        held.push({ id: answer.id, token: asked.token });
      } else if (action === "advance") clock.advance(random.between(1, LEASE_MS));
      else if (action === "renew" && one !== undefined) await server.renew(one);
      else if (one !== undefined) {
        const { id, token } = one;
        const settle = () =>
          action === "complete"
            ? server.complete({ id, token, value: 1 })
            : server.abandon({ id, token, as: "unknown" });
        if (!(await settle())) continue;
        if (random.chance(0.3)) await settle();
        // It is settled at one server only: another server cannot distinguish a repetition from the first call.
        held.splice(held.indexOf(one), 1);
      }
    }
    judge(events, held.length, seed);
  }
});

function judge(events: readonly GuardEvent[], open: number, seed: number): void {
  const starts = new Map<string, number>();
  const ends = new Map<string, number>();
  for (const event of events) {
    if (event.kind === "claimed" || event.kind === "taken-over") count(starts, event);
    if (event.kind === "completed" || event.kind === "abandoned") count(ends, event);
  }
  expect(new Set([...starts.values(), ...ends.values()]), `seed ${seed}`).toEqual(new Set([1]));
  for (const attempt of ends.keys()) expect(starts.has(attempt), `seed ${seed}`).toBe(true);
  expect(starts.size - ends.size, `seed ${seed}`).toBe(open);
}

function count(counts: Map<string, number>, { keyHash, fence }: { keyHash: string; fence: number }): void {
  const name = `${keyHash} ${fence}`;
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
