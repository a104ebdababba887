/** Claims that share one, without a store: which claims are sent, and what each caller is answered. */
import { expect, test } from "vitest";
import type { ClaimAnswer, ClaimRequest } from "../../src/core/store.ts";
import { createBatch } from "../../src/stores/batch.ts";
import { CLAIM_SHARING } from "../../src/stores/claim-sharing.ts";

const NEW: ClaimAnswer = { status: "new", fence: 7, number: 1, tookOver: false };
const PENDING: ClaimAnswer = { status: "pending", leaseLeftMs: 12_000, elapsedMs: 18_000 };
const COMPLETED: ClaimAnswer = { status: "completed", outcome: "done" };
const parts = { namespace: "shop", scope: "alice", operation: "charge", key: "k1" };

function claimOf(token: string, changes: Partial<ClaimRequest> = {}): ClaimRequest {
  return { id: "k1", parts, token, leaseMs: 30_000, retentionMs: 60_000, hold: false, ...changes };
}

interface Flight {
  readonly requests: readonly ClaimRequest[];
  readonly tokens: readonly string[];
  land(...answers: (ClaimAnswer | PromiseLike<ClaimAnswer> | undefined)[]): void;
  crash(error: Error): void;
}

/** A store whose writes finish when the test lets them. The first one is under way, so that later claims are queued. */
async function scene() {
  const flights: Flight[] = [];
  const alone: string[] = [];
  const batch = createBatch<ClaimRequest, ClaimAnswer>({
    maxCalls: 100,
    sharing: CLAIM_SHARING,
    send: (requests) =>
      new Promise((land, crash) => {
        const tokens = requests.map(({ token }) => token);
        flights.push({ requests, tokens, land: (...answers) => land(answers), crash });
      }),
    async alone({ token }) {
      alone.push(token);
      return token === "poison" ? Promise.reject(new Error("a poisoned token")) : PENDING;
    },
  });
  void batch.run(claimOf("busy", { id: "another key" }));
  await settled();
  /** Lands the first write, so that the queued claims are sent. */
  const next = async (): Promise<Flight> => {
    flights.at(-1)?.land(NEW);
    await settled();
    return flights.at(-1) as Flight;
  };
  return { claim: batch.run, flights, alone, next };
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

test("500 queued claims of a new key are sent as one: the first caller owns it, and the others find it pending", async () => {
  const { claim, next } = await scene();
  const answers = Promise.all(Array.from({ length: 500 }, (_, index) => claim(claimOf(`t${index}`))));
  const flight = await next();
  expect(flight.tokens).toEqual(["t0"]);
  flight.land(NEW);
  const [first, ...others] = await answers;
  expect(first).toEqual(NEW);
  // As if each had claimed directly after the first one.
  for (const other of others) expect(other).toEqual({ status: "pending", leaseLeftMs: 30_000, elapsedMs: 0 });
});

test("an outcome and a conflict go to every caller", async () => {
  for (const answer of [COMPLETED, { status: "conflict", state: "completed" }] as const) {
    const { claim, flights, next } = await scene();
    const answers = Promise.all(["a", "b", "c"].map((token) => claim(claimOf(token))));
    const flight = await next();
    expect(flight.tokens).toEqual(["a"]);
    flight.land(answer);
    expect(await answers).toEqual([answer, answer, answer]);
    expect(flights).toHaveLength(2);
  }
});

test("a claim whose own answer may have been lost is sent, since its caller may own the key", async () => {
  for (const answer of [PENDING, { status: "unknown", fence: 7 }] as const) {
    const { claim, next } = await scene();
    const stranger = claim(claimOf("stranger"));
    const owner = claim(claimOf("owner"));
    (await next()).land(answer);
    expect(await stranger).toEqual(answer);
    await settled();
    const flight = await next();
    expect(flight.tokens).toEqual(["owner"]);
    expect(await owner).toEqual(NEW);
  }
});

test("a claim that is repeated with its own token is granted like the first try", async () => {
  const { claim, next } = await scene();
  const tries = Promise.all([claim(claimOf("a")), claim(claimOf("b")), claim(claimOf("a"))]);
  const flight = await next();
  expect(flight.tokens).toEqual(["a"]);
  flight.land(NEW);
  expect(await tries).toEqual([NEW, { status: "pending", leaseLeftMs: 30_000, elapsedMs: 0 }, NEW]);
});

test("claims share only if the store judges them by the same values", async () => {
  const unlike: Partial<ClaimRequest>[] = [
    { fingerprint: "1:other" },
    { hold: true },
    { leaseMs: 1_000 },
    { retentionMs: 1_000 },
    { mayBeLost: true },
    { takeover: 7 },
    { id: "k2" },
  ];
  for (const changes of unlike) {
    const { claim, next } = await scene();
    void claim(claimOf("a"));
    void claim(claimOf("b", changes));
    expect((await next()).tokens, JSON.stringify(changes)).toEqual(["a", "b"]);
  }
  const { claim, next } = await scene();
  // Decisions never share.
  void claim(claimOf("a", { takeover: 7 }));
  void claim(claimOf("b", { takeover: 7 }));
  expect((await next()).tokens).toEqual(["a", "b"]);
});

test("a claim never joins one that was sent: the store may have judged it before", async () => {
  const { claim, flights, next } = await scene();
  const early = claim(claimOf("early"));
  const flight = await next();
  const late = claim(claimOf("late"));
  flight.land(COMPLETED);
  expect(await early).toEqual(COMPLETED);
  await settled();
  expect(flights.at(-1)?.tokens).toEqual(["late"]);
  flights.at(-1)?.land(NEW);
  expect(await late).toEqual(NEW);
});

test("if the first caller leaves before the claim is sent, the next one's claim is sent", async () => {
  const { claim, next } = await scene();
  const leaves = new AbortController();
  const first = expect(claim(claimOf("first", { signal: leaves.signal }))).rejects.toMatchObject({
    code: "unavailable",
  });
  const second = claim(claimOf("second"));
  const third = claim(claimOf("third"));
  leaves.abort();
  const flight = await next();
  expect(flight.tokens).toEqual(["second"]);
  await first;
  flight.land(NEW);
  expect(await second).toEqual(NEW);
  expect(await third).toMatchObject({ status: "pending" });
});

test("a sent claim is cancelled only when every caller has left, and its grant goes to the caller whose token was sent", async () => {
  const { claim, next } = await scene();
  const [leavesFirst, leavesLast] = [new AbortController(), new AbortController()];
  const first = claim(claimOf("first", { signal: leavesFirst.signal }));
  const second = claim(claimOf("second", { signal: leavesLast.signal }));
  const flight = await next();
  const [sent] = flight.requests;
  leavesFirst.abort();
  expect(sent?.signal?.aborted).toBe(false);
  leavesLast.abort();
  expect(sent?.signal?.aborted).toBe(true);
  // Granted all the same: the caller that left gives the claim back, so it must learn of it.
  flight.land(NEW);
  expect(await first).toEqual(NEW);
  expect(await second).toMatchObject({ status: "pending" });
});

test("the answer may be a promise, as of a claim that needs a second trip", async () => {
  const { claim, next } = await scene();
  const answers = Promise.all(["a", "b"].map((token) => claim(claimOf(token))));
  (await next()).land(Promise.resolve(COMPLETED));
  expect(await answers).toEqual([COMPLETED, COMPLETED]);
});

test("a claim that was not carried out is sent again for all its callers", async () => {
  const { claim, flights, next } = await scene();
  const answers = Promise.all(["a", "b"].map((token) => claim(claimOf(token))));
  (await next()).land(undefined);
  await settled();
  expect(flights.at(-1)?.tokens).toEqual(["a"]);
  flights.at(-1)?.land(COMPLETED);
  expect(await answers).toEqual([COMPLETED, COMPLETED]);
});

test("an error of the claim that was sent reaches its caller only; the others are sent, each for itself", async () => {
  const { claim, flights, next } = await scene();
  const poisoned = claim(claimOf("poison"));
  const others = Promise.all(["b", "c"].map((token) => claim(claimOf(token))));
  (await next()).crash(new Error("a poisoned token"));
  await expect(poisoned).rejects.toThrow("a poisoned token");
  await settled();
  expect(flights.at(-1)?.tokens).toEqual(["b", "c"]);
  flights.at(-1)?.land(NEW, PENDING);
  expect(await others).toEqual([NEW, PENDING]);
});
