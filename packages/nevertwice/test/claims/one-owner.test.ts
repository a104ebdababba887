/**
 * Tests clients that lose answers and repeat their claim with their own token, servers that die, and a store that
 * loses, delays and refuses calls, in virtual time and from a seed. In every schedule, no two clients own a key at
 * once, and no client is told for ever to wait for a claim that its token can never get.
 */
import { expect, test } from "vitest";
import { type ClaimAnswered, type Claims, createClaims } from "../../src/claims/index.ts";
import { isNevertwiceError } from "../../src/core/errors.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type FaultRates, faultyStore } from "../../src/testing/faulty-store.ts";
import { type Random, seededRandom } from "../../src/testing/random.ts";
import { createProcess, createWorld, type Process } from "../../src/testing/simulation/world.ts";

const SCHEDULES = 400;
const LEASE_MS = 400;
const STORE_TIMEOUT_MS = 40;
/** A client that waits longer than this treats the answer as lost. */
const CLIENT_TIMEOUT_MS = 150;
const ENDS_AT_MS = 6_000;
const RATES: FaultRates = { refuse: 0.1, hang: 0.08, "lose-reply": 0.12, "break-reply": 0.08, delay: 0.1 };

interface Server {
  readonly process: Process;
  readonly claims: Claims;
}

test(`no two clients own a key at once, and no token waits for ever: ${SCHEDULES} schedules`, async () => {
  const counts = new Map<string, number>();
  for (let seed = 1; seed <= SCHEDULES; seed++) {
    for (const [answer, count] of await schedule(seed)) counts.set(answer, (counts.get(answer) ?? 0) + count);
  }
  // The schedules reach every answer that a repeated claim may get.
  for (const answer of ["new", "pending", "completed", "unknown", "token-spent", "unavailable", "lost"])
    expect([answer, counts.get(answer) ?? 0]).toEqual([answer, expect.toSatisfy((count) => count > 10)]);
}, 120_000);

async function schedule(seed: number): Promise<ReadonlyMap<string, number>> {
  const random = seededRandom(seed);
  const world = createWorld();
  const inner = memoryStore({ clock: { now: () => world.now() + 1_700_000_000_000 } });
  const store = faultyStore(inner, { timer: world, seed, rates: RATES, delayMs: 300 });
  const onLapsed = random.pick(["takeover", "hold"] as const);
  const counts = new Map<string, number>();
  const owners = new Map<string, number>();
  const failures: string[] = [];
  let tokens = 0;

  function newServer(): Server {
    const process = createProcess(world);
    const ports = { timer: process.timer, random: random.next, newToken: () => `server-token-${tokens++}-x` };
    const options = { store, leaseMs: LEASE_MS, storeTimeoutMs: STORE_TIMEOUT_MS, purgeEveryMs: 0, onLapsed };
    return { process, claims: createClaims(options, ports) };
  }
  const servers = [newServer(), newServer()];

  const sleep = (ms: number) => new Promise<void>((resolve) => void world.after(ms, resolve));

  /** One request over HTTP: answered, failed, or lost on its way there or back. */
  function ask<T>(send: (claims: Claims) => Promise<T>): Promise<T | Error | "lost"> {
    const { process, claims } = random.pick(servers);
    const isReplyLost = random.chance(0.15);
    return new Promise((resolve) => {
      world.after(CLIENT_TIMEOUT_MS, () => resolve("lost"));
      if (process.isDead() || random.chance(0.05)) return;
      const reply = (answer: T | Error) => !isReplyLost && process.arrive(() => resolve(answer));
      send(claims).then(reply, reply);
    });
  }

  function countAnswer(answer: ClaimAnswered | Error | "lost"): void {
    const name = answer === "lost" ? "lost" : answer instanceof Error ? codeOf(answer) : answer.status;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }

  /** Reports how the work ended, until a server answers. A token that was abandoned is not used for work again. */
  async function settle(id: string, token: string): Promise<void> {
    const isDone = random.chance(0.3);
    for (let tries = 0; tries < 8; tries++) {
      const answer = await ask((claims) =>
        isDone
          ? claims.complete({ id, token, value: token })
          : claims.abandon({ id, token, as: random.pick(["released", "unrun", "unknown"] as const) }),
      );
      if (typeof answer === "boolean") break;
    }
    if (isDone || random.chance(0.5)) return;
    // Another client may claim the key between the claim and the read that finds the token spent, but not for ever.
    for (let tries = 0; tries < 5; tries++) {
      const late = await ask((claims) => claims.claim({ operation: "charge", key: "k", token }));
      countAnswer(late);
      const isToldToWait = late !== "lost" && !(late instanceof Error) && late.status === "pending";
      if (!isToldToWait || late.leaseLeftMs > 0) return;
    }
    failures.push(`${token} was told to come back for a claim that it gave up`);
  }

  async function client(name: string, isBringing: boolean): Promise<void> {
    while (world.now() < ENDS_AT_MS) {
      const token = isBringing ? `token-of-${name}-number-${tokens++}` : undefined;
      // A client repeats its claim with the same token until it has received an answer.
      for (let isOpen = true; isOpen && world.now() < ENDS_AT_MS; ) {
        const sentAt = world.now();
        const answer = await ask((claims) => claims.claim({ operation: "charge", key: "k", token }));
        countAnswer(answer);
        isOpen = answer === "lost" || answer instanceof Error || answer.status === "pending";
        if (answer !== "lost" && !(answer instanceof Error)) {
          if (answer.status === "new") await own(name, answer, sentAt);
          if (answer.status === "pending" && answer.leaseLeftMs <= 0)
            failures.push(`${name} was told to come back at once`);
          if (answer.status === "completed" || answer.status === "unknown") return;
        } else if (answer instanceof Error && token !== undefined && random.chance(0.2)) {
          // The client gives up the claim that may have been granted, and starts afresh.
          const { id } = answer as Error & { readonly id?: string };
          if (id !== undefined) await ask((claims) => claims.abandon({ id, token, as: "unrun" }));
          isOpen = false;
        }
        await sleep(random.between(1, 60));
      }
    }
  }

  async function own(name: string, claim: ClaimAnswered & { status: "new" }, sentAt: number): Promise<void> {
    const until = sentAt + LEASE_MS;
    if (world.now() >= until) return;
    for (const [other, end] of owners)
      if (other !== name && end > world.now()) failures.push(`${name} and ${other} own the key at once`);
    owners.set(name, until);
    const workMs = random.between(1, LEASE_MS);
    await sleep(Math.min(workMs, until - world.now()));
    owners.delete(name);
    // A client that was too slow, or has died, reports nothing.
    if (world.now() < until && random.chance(0.85)) await settle(claim.id, claim.token);
  }

  const clients = Promise.all([client("anna", true), client("bert", true), client("carl", false)]);
  void crashServers(random, servers, newServer, sleep, () => world.now() < ENDS_AT_MS);
  let isOver = false;
  void clients.then(() => {
    isOver = true;
  });
  await world.run(() => isOver || failures.length > 0);
  expect(failures, `seed ${seed}`).toEqual([]);
  return counts;
}

/** From time to time a server dies with all its background work, and another one starts. */
async function crashServers(
  random: Random,
  servers: Server[],
  newServer: () => Server,
  sleep: (ms: number) => Promise<void>,
  isRunning: () => boolean,
): Promise<void> {
  while (isRunning()) {
    await sleep(random.between(100, 1_500));
    const index = random.between(0, servers.length - 1);
    servers[index]?.process.crash();
    servers[index] = newServer();
  }
}

function codeOf(error: Error): string {
  return isNevertwiceError(error) ? error.code : error.message;
}
