/** Tests what a duplicate is told while long work is running: how long to wait, or the answer itself. Of problem.ts and waiting-room.ts. */
import { describe, expect, it } from "vitest";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { scene, slow } from "./profile-scene.ts";

const KEY = { "idempotency-key": "8e03978e-40d5-43e8-bc93-6894a57f9324" };

describe("a duplicate of work that is still running", () => {
  it.each([
    [0, "1"],
    [1_000, "1"],
    [1_001, "2"],
    [9_500, "10"],
    [30_000, "30"],
    [600_000, "30"],
  ])(
    "after %i ms is told to come back in %s s, with the time by the store's clock",
    async (elapsedMs, seconds) => {
      const clock = manualClock();
      const { send, answers } = scene({ leaseMs: 900_000 }, { store: memoryStore({ clock }) });
      const work = slow(() => new Response("done", { status: 201 }));
      answers(work.handler);
      const first = send({ headers: KEY });
      await work.began;
      clock.advance(elapsedMs);
      const duplicate = await send({ headers: KEY });
      expect(duplicate.status).toBe(409);
      expect(duplicate.headers.get("retry-after")).toBe(seconds);
      expect(await duplicate.json()).toMatchObject({ code: "pending", elapsedMs });
      work.finish();
      expect((await first).status).toBe(201);
    },
  );
});

describe.each(["stripe-v1", "stripe-v2"] as const)("%s", (profile) => {
  it("waits for the answer of the running attempt instead of refusing", async () => {
    const { send, answers, runs } = scene({ profile });
    const work = slow(() => Response.json({ id: "ch_1" }, { status: 200 }));
    answers(work.handler);
    const first = send({ headers: KEY });
    await work.began;
    const duplicate = send({ headers: KEY });
    work.finish();
    expect(await (await first).json()).toEqual({ id: "ch_1" });
    expect(await (await duplicate).json()).toEqual({ id: "ch_1" });
    expect(runs()).toBe(1);
  });
});

describe("requests that wait", () => {
  const waiting = { onPending: "wait", waitMs: 60_000 } as const;

  /** Statuses of the requests that were answered before the work ended, and of those that waited for it. */
  async function crowd(
    options: object,
    keys: readonly string[],
  ): Promise<{ refused: number; answered: number }> {
    const { send, answers } = scene({ ...waiting, ...options });
    const works = keys.map(() => slow(() => new Response("done", { status: 201 })));
    let next = 0;
    answers(() => (works[next++] as (typeof works)[number]).handler());
    const firsts = keys.map((key) => send({ headers: { "idempotency-key": key } }));
    await Promise.all(works.map(({ began }) => began));
    let refused = 0;
    const duplicates = keys.flatMap((key) =>
      [1, 2, 3].map(async () => {
        const { status } = await send({ headers: { "idempotency-key": key } });
        if (status === 409) refused++;
        return status;
      }),
    );
    // Every request that finds no seat is answered before the work ends.
    await expect.poll(() => refused, { timeout: 20_000 }).toBe(EXPECTED_REFUSALS);
    for (const { finish } of works) finish();
    const statuses = await Promise.all([...firsts.map(async (sent) => (await sent).status), ...duplicates]);
    return { refused, answered: statuses.filter((status) => status === 201).length };
  }
  const EXPECTED_REFUSALS = 2;

  it("are bounded for each key", async () => {
    expect(await crowd({ maxWaiting: { perKey: 2 } }, ["k1", "k2"])).toEqual({ refused: 2, answered: 6 });
  });

  it("are bounded for the process", async () => {
    expect(await crowd({ maxWaiting: { total: 4 } }, ["k3", "k4"])).toEqual({ refused: 2, answered: 6 });
  });

  it("are bounded by the bytes of their bodies", async () => {
    // {"amount":5} has 12 bytes.
    expect(await crowd({ maxWaiting: { bytes: 59 } }, ["k5", "k6"])).toEqual({ refused: 2, answered: 6 });
  });

  it("leave their seats when they are answered", async () => {
    const limits = { maxWaiting: { perKey: 1, total: 1 } };
    const { send, answers } = scene({ ...waiting, ...limits });
    for (const key of ["k7", "k8"]) {
      const work = slow(() => new Response("done", { status: 201 }));
      answers(work.handler);
      const first = send({ headers: { "idempotency-key": key } });
      await work.began;
      const duplicate = send({ headers: { "idempotency-key": key } });
      await new Promise(setImmediate);
      work.finish();
      expect((await first).status).toBe(201);
      expect((await duplicate).status).toBe(201);
    }
  });

  it.each([{ perKey: -1 }, { perkey: 1 }, 5, null])("are not bounded by %j", (maxWaiting) => {
    expect(() => scene({ maxWaiting: maxWaiting as never })).toThrow("options-invalid: maxWaiting");
  });
});
