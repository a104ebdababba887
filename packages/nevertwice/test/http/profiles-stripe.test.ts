/** Tests the profiles stripe-v1 and stripe-v2, over the fetch adapter. */
import { describe, expect, it } from "vitest";
import { current } from "../../src/http/current-replay.ts";
import { DAY_MS, scene, slow } from "./profile-scene.ts";
import { REPLAYED } from "./replayed-header.ts";

const KEY = { "idempotency-key": "KG5LxwFBepaKHyUD" };

describe("stripe-v1", () => {
  it("ST-01 replays a 500 that the handler answered", async () => {
    const { send, answers, runs } = scene({ profile: "stripe-v1" });
    answers(() => Response.json({ error: "broken" }, { status: 500 }));
    await send({ headers: KEY });
    const replay = await send({ headers: KEY });
    expect(replay.status).toBe(500);
    expect(replay.headers.get(REPLAYED)).toBe("true");
    expect(await replay.json()).toEqual({ error: "broken" });
    expect(runs()).toBe(1);
  });

  it("ST-01 does not run a handler that threw again, either", async () => {
    const { send, answers, runs } = scene({ profile: "stripe-v1" });
    answers(() => {
      throw new Error("out of order");
    });
    await expect(send({ headers: KEY })).rejects.toThrow("out of order");
    await expect(send({ headers: KEY })).rejects.toThrow("out of order");
    expect(runs()).toBe(1);
  });

  it("ST-02 replays a 400 that the handler answered after it began", async () => {
    const { send, answers, runs } = scene({ profile: "stripe-v1" });
    answers(() => Response.json({ error: "no such card" }, { status: 400 }));
    await send({ headers: KEY });
    const replay = await send({ headers: KEY });
    expect(replay.status).toBe(400);
    expect(replay.headers.get(REPLAYED)).toBe("true");
    expect(runs()).toBe(1);
  });

  it("ST-03 runs a corrected body with the same key if validation failed before anything was done", async () => {
    const { send, answers, runs } = scene({ profile: "stripe-v1" });
    answers(async (request, attempt) => {
      const { amount } = (await request.json()) as { amount: number };
      if (amount > 0) return Response.json({ amount }, { status: 201 });
      attempt?.keep("release");
      return Response.json({ error: "amount" }, { status: 400 });
    });
    expect((await send({ headers: KEY, body: { amount: -5 } })).status).toBe(400);
    const corrected = await send({ headers: KEY, body: { amount: 5 } });
    expect(corrected.status).toBe(201);
    expect(corrected.headers.has(REPLAYED)).toBe(false);
    expect(runs()).toBe(2);
  });

  it("ST-04 answers 400 and idempotency_error to other parameters", async () => {
    const { send, runs } = scene({ profile: "stripe-v1" });
    await send({ headers: KEY });
    const conflict = await send({ headers: KEY, body: { amount: 6 } });
    expect(conflict.status).toBe(400);
    expect(conflict.headers.get("content-type")).toBe("application/json");
    expect(await conflict.json()).toEqual({
      error: {
        type: "idempotency_error",
        message: expect.stringContaining("different request"),
        doc_url: expect.stringContaining("#conflict"),
      },
    });
    expect(runs()).toBe(1);
  });

  it("ST-04 answers the same on another endpoint", async () => {
    const { send, runs } = scene({ profile: "stripe-v1" });
    await send({ headers: KEY, path: "/charges" });
    const conflict = await send({ headers: KEY, path: "/refunds" });
    expect(conflict.status).toBe(400);
    expect(await conflict.json()).toMatchObject({ error: { type: "idempotency_error" } });
    expect(runs()).toBe(1);
  });

  it("ST-05 answers 409 and idempotency_key_in_use while the first runs, and does not keep that", async () => {
    const { send, answers, runs } = scene({ profile: "stripe-v1", onPending: "reject" });
    const { handler, began, finish } = slow(() => Response.json({ id: 1 }, { status: 201 }));
    answers(handler);
    const first = send({ headers: KEY });
    await began;
    const inUse = await send({ headers: KEY });
    expect(inUse.status).toBe(409);
    expect(inUse.headers.get("retry-after")).toBe("1");
    expect(await inUse.json()).toMatchObject({
      error: { type: "invalid_request_error", code: "idempotency_key_in_use" },
    });
    finish();
    expect((await first).status).toBe(201);
    expect((await send({ headers: KEY })).status).toBe(201);
    expect(runs()).toBe(1);
  });

  it.each(["DELETE", "GET", "PATCH"])("ST-06 ignores a key on %s", async (method) => {
    const { send, runs } = scene({ profile: "stripe-v1" });
    await send({ method, headers: KEY });
    await send({ method, headers: KEY });
    expect(runs()).toBe(2);
  });

  it("ST-07 runs a key again after 24 hours", async () => {
    const { send, clock, runs } = scene({ profile: "stripe-v1" });
    await send({ headers: KEY });
    clock.advance(DAY_MS - 1);
    await send({ headers: KEY });
    expect(runs()).toBe(1);
    clock.advance(1);
    const again = await send({ headers: KEY, body: { amount: 6 } });
    expect(again.headers.has(REPLAYED)).toBe(false);
    expect(runs()).toBe(2);
  });

  it.each([401, 429])("does not keep a %i, which means that nothing was done", async (status) => {
    const { send, answers, runs } = scene({ profile: "stripe-v1" });
    answers(() => new Response(null, { status }));
    await send({ headers: KEY });
    await send({ headers: KEY });
    expect(runs()).toBe(2);
  });
});

describe("stripe-v2", () => {
  it.each([400, 500])("ST-08 runs again after a %i", async (status) => {
    const { send, answers, runs } = scene({ profile: "stripe-v2" });
    answers(() => new Response(null, { status }));
    expect((await send({ headers: KEY })).status).toBe(status);
    answers(() => Response.json({ id: "new" }));
    const again = await send({ headers: KEY });
    expect(await again.json()).toEqual({ id: "new" });
    expect(again.headers.has(REPLAYED)).toBe(false);
    expect(runs()).toBe(2);
  });

  it("ST-09 does not run again after a success, and answers from the current state", async () => {
    const order = { id: "o1", status: "open" };
    const { send, answers, runs } = scene({
      profile: "stripe-v2",
      replay: current(() => ({ body: order })),
    });
    answers(() => Response.json(order));
    await send({ headers: KEY });
    order.status = "shipped";
    const replay = await send({ headers: KEY });
    expect(await replay.json()).toEqual({ id: "o1", status: "shipped" });
    expect(replay.headers.get(REPLAYED)).toBe("true");
    expect(runs()).toBe(1);
  });

  it("ST-10 protects a DELETE on day 29, and runs it again on day 31", async () => {
    const { send, clock, runs } = scene({ profile: "stripe-v2" });
    const sent = { method: "DELETE", path: "/orders/1", headers: KEY };
    await send(sent);
    clock.advance(29 * DAY_MS);
    await send(sent);
    expect(runs()).toBe(1);
    clock.advance(2 * DAY_MS);
    await send(sent);
    expect(runs()).toBe(2);
  });
});

describe.each(["stripe-v1", "stripe-v2"] as const)("a key without quotes under %s", (profile) => {
  it.each(["order 5", 'say "hi"', "bestellung-\u00e4", "a=b;c/d"])(
    "may be %j, as Stripe's clients send it",
    async (key) => {
      const { send, runs } = scene({ profile });
      await send({ headers: { "idempotency-key": key } });
      const replay = await send({ headers: { "idempotency-key": key } });
      expect([replay.headers.get(REPLAYED), runs()]).toEqual(["true", 1]);
      await send({ headers: { "idempotency-key": `${key}.` } });
      expect(runs()).toBe(2);
    },
  );

  it.each(["a,b", "a, b", '"a', "a\u0001b"])(
    "may not be %j, since two header lines could look like it",
    async (key) => {
      const { send, runs } = scene({ profile });
      const request = { headers: { "idempotency-key": key } };
      const answer = await send(request).catch(() => undefined);
      expect([answer?.status ?? 400, runs()]).toEqual([400, 0]);
    },
  );
});

it("a key without quotes is visible ASCII under the other profiles", async () => {
  for (const key of ["order 5", 'say"hi"', "bestellung-\u00e4"]) {
    const { status } = await scene({}).send({ headers: { "idempotency-key": key } });
    expect(status).toBe(400);
  }
});
