/** Tests the profiles acp, ucp and zalando, over the fetch adapter. */
import { describe, expect, it } from "vitest";
import { memoryStore } from "../../src/stores/memory.ts";
import { type FaultyStore, faultyStore } from "../../src/testing/faulty-store.ts";
import { DAY_MS, scene, slow } from "./profile-scene.ts";
import { REPLAYED } from "./replayed-header.ts";

const KEY = { "idempotency-key": "550e8400-e29b-41d4-a716-446655440000" };

describe("acp", () => {
  it("AG-01 answers 400 and idempotency_key_required without a key", async () => {
    const { send, runs } = scene({ profile: "acp" });
    const refused = await send();
    expect(refused.status).toBe(400);
    expect(refused.headers.get("content-type")).toBe("application/json");
    expect(refused.headers.get("link")).toMatch(/^<.+#key-missing>; rel="describedby"/);
    expect(await refused.json()).toEqual({
      type: "invalid_request",
      code: "idempotency_key_required",
      message: expect.stringContaining("Idempotency-Key"),
    });
    expect(runs()).toBe(0);
  });

  it("AG-02 answers 422 and idempotency_conflict to another body", async () => {
    const { send, runs } = scene({ profile: "acp" });
    await send({ headers: KEY });
    const conflict = await send({ headers: KEY, body: { amount: 6 } });
    expect(conflict.status).toBe(422);
    expect(await conflict.json()).toMatchObject({ type: "invalid_request", code: "idempotency_conflict" });
    expect(runs()).toBe(1);
  });

  it("AG-03 answers 409, idempotency_in_flight and Retry-After while the first runs", async () => {
    const { send, answers } = scene({ profile: "acp" });
    const { handler, began, finish } = slow(() => new Response("done"));
    answers(handler);
    const first = send({ headers: KEY });
    await began;
    const inFlight = await send({ headers: KEY });
    expect(inFlight.status).toBe(409);
    expect(inFlight.headers.get("retry-after")).toBe("1");
    expect(await inFlight.json()).toMatchObject({ type: "invalid_request", code: "idempotency_in_flight" });
    finish();
    await first;
  });

  it("AG-04 treats a changed extension field as another request", async () => {
    const { send } = scene({ profile: "acp" });
    await send({ headers: KEY, body: { amount: 5, extensions: { gift: false } } });
    const conflict = await send({ headers: KEY, body: { amount: 5, extensions: { gift: true } } });
    expect(conflict.status).toBe(422);
  });

  it("RP-11 echoes the key as it was sent, with first answers, replays and refusals", async () => {
    const { send } = scene({ profile: "acp" });
    const quoted = { "idempotency-key": '"550e8400-e29b-41d4-a716-446655440000"' };
    for (const [headers, body, status] of [
      [KEY, { amount: 5 }, 201],
      [KEY, { amount: 5 }, 201],
      [quoted, { amount: 5 }, 201],
      [KEY, { amount: 6 }, 422],
      [{ "idempotency-key": "two keys" }, { amount: 5 }, 400],
    ] as const) {
      const answer = await send({ headers, body });
      expect(answer.status).toBe(status);
      expect(answer.headers.get("idempotency-key")).toBe(headers["idempotency-key"]);
    }
  });

  it("RP-11 does not echo a value that is invalid in a header", async () => {
    const { send } = scene({ profile: "acp" });
    const refused = await send({ headers: { "idempotency-key": "a\u007fb" } });
    expect(refused.status).toBe(400);
    expect(refused.headers.has("idempotency-key")).toBe(false);
  });

  it("EX-04 still replays after 23 hours and 59 minutes", async () => {
    const { send, clock, runs } = scene({ profile: "acp" }, { retentionMs: 1_000 });
    await send({ headers: KEY });
    clock.advance(DAY_MS - 60_000);
    const replay = await send({ headers: KEY });
    expect(replay.headers.get(REPLAYED)).toBe("true");
    expect(runs()).toBe(1);
  });

  it("refuses a retention of less than a day", () => {
    expect(() => scene({ profile: "acp", retentionMs: DAY_MS - 1 })).toThrow(
      "retentionMs is 86399999; the profile acp needs at least 86400000.",
    );
  });

  it("IK-17 never keeps a 5xx, even if the guard remembers failures", async () => {
    const { send, answers, runs } = scene({ profile: "acp" }, { onFailure: "remember" });
    answers(() => new Response("broken", { status: 500 }));
    await send({ headers: KEY });
    await send({ headers: KEY });
    expect(runs()).toBe(2);
  });

  it("reports an unavailable store as service_unavailable", async () => {
    const { send, runs } = scene(
      { profile: "acp" },
      { store: downStore(), storeTimeoutMs: 50, onUnavailable: "refuse" },
    );
    const refused = await send({ headers: KEY });
    expect(refused.status).toBe(503);
    expect(await refused.json()).toMatchObject({
      type: "service_unavailable",
      code: "idempotency_unavailable",
    });
    expect(runs()).toBe(0);
  });
});

describe("ucp", () => {
  it("AG-05 answers 409 to another payload, and without Retry-After", async () => {
    const { send, runs } = scene({ profile: "ucp" });
    await send({ headers: KEY });
    const conflict = await send({ headers: KEY, body: { amount: 6 } });
    expect(conflict.status).toBe(409);
    expect(conflict.headers.has("retry-after")).toBe(false);
    expect(await conflict.json()).toEqual({
      code: "idempotency_conflict",
      content: expect.stringContaining("different request"),
    });
    expect(runs()).toBe(1);
  });

  it("FP-05 treats one more space as another payload", async () => {
    const { send } = scene({ profile: "ucp" });
    await send({ headers: KEY, body: '{"amount":5}' });
    expect((await send({ headers: KEY, body: '{"amount":5}' })).status).toBe(201);
    expect((await send({ headers: KEY, body: '{"amount": 5}' })).status).toBe(409);
  });

  it("SC-08 fails closed when the store is down, even if the guard would proceed", async () => {
    const { send, runs } = scene(
      { profile: "ucp" },
      { store: downStore(), storeTimeoutMs: 50, onUnavailable: "proceed" },
    );
    const refused = await send({ headers: KEY });
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(runs()).toBe(0);
  });

  it("remembers for 48 hours, and refuses less than 24", async () => {
    const { send, clock, runs } = scene({ profile: "ucp" });
    await send({ headers: KEY });
    clock.advance(2 * DAY_MS - 1);
    await send({ headers: KEY });
    expect(runs()).toBe(1);
    clock.advance(1);
    await send({ headers: KEY });
    expect(runs()).toBe(2);
    expect(() => scene({ profile: "ucp", retentionMs: DAY_MS - 1 })).toThrow("needs at least");
  });

  it("protects a PUT, which replaces a checkout", async () => {
    const { send, runs } = scene({ profile: "ucp" });
    await send({ method: "PUT", headers: KEY });
    await send({ method: "PUT", headers: KEY });
    expect(runs()).toBe(1);
  });
});

describe("zalando", () => {
  it("ZA-01 answers 400 to a changed request", async () => {
    const { send, runs } = scene({ profile: "zalando" });
    await send({ headers: KEY });
    const conflict = await send({ headers: KEY, body: { amount: 6 } });
    expect(conflict.status).toBe(400);
    expect(conflict.headers.get("content-type")).toBe("application/problem+json");
    expect(await conflict.json()).toMatchObject({
      type: "/problems/conflict",
      status: 400,
      code: "conflict",
    });
    expect(runs()).toBe(1);
  });

  it.each([200, 404, 429, 500])("ZA-01 keeps a %i", async (status) => {
    const { send, answers, runs } = scene({ profile: "zalando" });
    answers(() => new Response("an answer", { status }));
    await send({ headers: KEY });
    const replay = await send({ headers: KEY });
    expect(replay.status).toBe(status);
    expect(replay.headers.get(REPLAYED)).toBe("true");
    expect(runs()).toBe(1);
  });
});

/** Every call of it fails. */
function downStore(): FaultyStore {
  return faultyStore(memoryStore(), { rates: { refuse: 1 } });
}
