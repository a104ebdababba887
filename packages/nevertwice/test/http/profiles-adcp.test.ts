/** Tests the profile adcp, over the fetch adapter: the key in the body, and what a replay says. */
import { describe, expect, it } from "vitest";
import type { HttpReply } from "../../src/http/http-message.ts";
import { withReplayedMember } from "../../src/http/profiles/replayed-member.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { DAY_MS, HOUR_MS, scene, slow } from "./profile-scene.ts";
import { REPLAYED } from "./replayed-header.ts";

const KEY = "buy_01HW7J8K9P0Q1R2S";
const BODY = { idempotency_key: KEY, budget: 5 };

function inBoth(error: object): object {
  return { status: "failed", adcp_error: error, errors: [error] };
}

describe("adcp", () => {
  it.each([
    ["no key", { budget: 5 }],
    ["15 characters", { ...BODY, idempotency_key: "x".repeat(15) }],
    ["256 characters", { ...BODY, idempotency_key: "x".repeat(256) }],
    ["a space", { ...BODY, idempotency_key: `${KEY} x` }],
    ["a key that is a number", { ...BODY, idempotency_key: 1234567890123456 }],
    ["no JSON", "idempotency_key"],
  ])("AG-07 answers INVALID_REQUEST to %s, without a call to the store", async (_what, body) => {
    const store = faultyStore(memoryStore());
    const { send, runs } = scene({ profile: "adcp" }, { store });
    const refused = await send({ body });
    expect(refused.status).toBe(400);
    const message = expect.stringContaining("idempotency_key");
    expect(await refused.json()).toEqual(
      inBoth({ code: "INVALID_REQUEST", message, recovery: "correctable" }),
    );
    expect(store.calls.claim + store.calls.read).toBe(0);
    expect(runs()).toBe(0);
  });

  it.each([400, 404, 409, 500])("AG-08 executes again after a %i", async (status) => {
    const { send, answers, runs } = scene({ profile: "adcp" });
    answers(() => Response.json({ errors: [{ code: "BUDGET_TOO_LOW" }] }, { status }));
    await send({ body: BODY });
    answers(() => Response.json({ media_buy_id: "mb1" }));
    const again = await send({ body: BODY });
    expect(again.status).toBe(200);
    expect(await again.json()).toEqual({ media_buy_id: "mb1" });
    expect(runs()).toBe(2);
  });

  it("AG-08 executes again after a throw", async () => {
    const { send, answers, runs } = scene({ profile: "adcp" }, { onFailure: "remember" });
    answers(() => {
      throw new Error("out of order");
    });
    await expect(send({ body: BODY })).rejects.toThrow("out of order");
    await expect(send({ body: BODY })).rejects.toThrow("out of order");
    expect(runs()).toBe(2);
  });

  it("AG-09 replays the payload byte for byte, and adds the member replayed", async () => {
    const { send, answers, runs } = scene({ profile: "adcp" });
    const text = '{ "status":"completed",\n  "payload":{"budget":5.00,"b":1,"a":"\\u00e9"} }';
    answers(
      () => new Response(text, { headers: { "content-type": "application/json", "content-digest": "x" } }),
    );
    const first = await send({ body: BODY });
    expect(await first.text()).toBe(text);
    const replay = await send({ body: BODY });
    expect(await replay.text()).toBe(
      '{"replayed":true, "status":"completed",\n  "payload":{"budget":5.00,"b":1,"a":"\\u00e9"} }',
    );
    expect(replay.headers.has("content-digest")).toBe(false);
    expect(replay.headers.get(REPLAYED)).toBe("true");
    expect(runs()).toBe(1);
  });

  it("AG-17 answers IDEMPOTENCY_CONFLICT to other arguments, without revealing the first ones", async () => {
    const { send, runs } = scene({ profile: "adcp" });
    await send({ body: { ...BODY, budget: 4711 } });
    const conflict = await send({ body: BODY });
    expect(conflict.status).toBe(422);
    const text = await conflict.text();
    const message = expect.stringContaining("different request");
    expect(JSON.parse(text)).toEqual(
      inBoth({ code: "IDEMPOTENCY_CONFLICT", message, recovery: "correctable" }),
    );
    expect(text).not.toContain("4711");
    expect(runs()).toBe(1);
  });

  it("treats the same key on another task as a conflict", async () => {
    const { send } = scene({ profile: "adcp" });
    await send({ path: "/create_media_buy", body: BODY });
    expect((await send({ path: "/update_media_buy", body: BODY })).status).toBe(422);
  });

  it("answers IDEMPOTENCY_IN_FLIGHT with retry_after while the first runs, but a conflict to other arguments", async () => {
    const { send, answers } = scene({ profile: "adcp" });
    const { handler, began, finish } = slow(() => Response.json({}));
    answers(handler);
    const first = send({ body: BODY });
    await began;
    const inFlight = await send({ body: BODY });
    expect(inFlight.status).toBe(409);
    expect(await inFlight.json()).toEqual(
      inBoth({
        code: "IDEMPOTENCY_IN_FLIGHT",
        message: expect.any(String),
        recovery: "transient",
        retry_after: 1,
        details: { retry_after: 1 },
      }),
    );
    expect((await send({ body: { ...BODY, budget: 6 } })).status).toBe(422);
    finish();
    await first;
  });

  it("FP-12 ignores the listed members in the fingerprint, and nothing else", async () => {
    const { send } = scene({ profile: "adcp" });
    const body = (credentials: string, url: string, trace: string) => ({
      ...BODY,
      context: { trace },
      governance_context: trace,
      push_notification_config: { url, authentication: { scheme: "Bearer", credentials } },
    });
    await send({ body: body("old", "https://a.test", "t1") });
    expect((await send({ body: body("new", "https://a.test", "t2") })).status).toBe(201);
    expect((await send({ body: BODY })).status).toBe(422);
    expect((await send({ body: body("old", "https://b.test", "t1") })).status).toBe(422);
    expect((await send({ body: { ...body("old", "https://a.test", "t1"), ext: null } })).status).toBe(422);
  });

  it("EX-05 EX-09 answers IDEMPOTENCY_EXPIRED to an expired key, after a minute's grace", async () => {
    const { send, clock, runs } = scene({ profile: "adcp" });
    await send({ body: BODY });
    clock.advance(DAY_MS + 59_999);
    expect((await send({ body: BODY })).headers.get(REPLAYED)).toBe("true");
    clock.advance(1);
    const expired = await send({ body: BODY });
    expect(expired.status).toBe(409);
    expect(await expired.json()).toMatchObject({ adcp_error: { code: "IDEMPOTENCY_EXPIRED" } });
    expect(runs()).toBe(1);
  });

  it("SC-09 answers RATE_LIMITED to a flood of keys", async () => {
    const { send, runs } = scene({ profile: "adcp", quota: 1 });
    await send({ body: BODY });
    const refused = await send({ body: { ...BODY, idempotency_key: "another_key_of_mine" } });
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({
      adcp_error: { code: "RATE_LIMITED", recovery: "transient", retry_after: 1 },
    });
    expect(runs()).toBe(1);
  });

  it.each([HOUR_MS - 1, 7 * DAY_MS + 1])("refuses a retention of %i", (retentionMs) => {
    expect(() => scene({ profile: "adcp", retentionMs })).toThrow("the profile adcp needs");
  });
});

describe("the member replayed", () => {
  const reply = (body: string | Uint8Array, type = "application/json"): HttpReply => ({
    kind: "reply",
    status: 200,
    headers: [["content-type", type]],
    body,
  });
  const marked = (body: string | Uint8Array, type?: string) => withReplayedMember(reply(body, type)).body;

  it.each([
    ["{}", '{"replayed":true}'],
    [" { } ", ' {"replayed":true } '],
    ['{"a":{"replayed":false}}', '{"replayed":true,"a":{"replayed":false}}'],
    ['{"a":1, "replayed" : false ,"b":2}', '{"a":1, "replayed" : true ,"b":2}'],
    ['{"replayed":{"x":[1,{"y":"}"}]}}', '{"replayed":true}'],
    ['{"\\u0072eplayed":null}', '{"\\u0072eplayed":true}'],
    ['{"a":"\\"replayed\\":0","replayed":0}', '{"a":"\\"replayed\\":0","replayed":true}'],
    ['{"a":["replayed",{"replayed":1}],"replayed":1}', '{"a":["replayed",{"replayed":1}],"replayed":true}'],
    ['{"replayed":0,"replayed":1}', '{"replayed":true,"replayed":true}'],
  ])("turns %s into %s", (text, expected) => {
    expect(marked(text)).toBe(expected);
    expect(marked(new TextEncoder().encode(text))).toBe(expected);
  });

  it.each(["[]", "7", '"{}"', "null", "", "{", "{]"])("does not change %j", (text) => {
    expect(marked(text)).toBe(text);
  });

  it("does not change other types, nor bytes that are not text", () => {
    expect(marked("{}", "text/plain")).toBe("{}");
    const compressed = Uint8Array.of(0x1f, 0x8b, 0xff);
    expect(marked(compressed)).toBe(compressed);
    expect(marked("{}", "application/vnd.order+json; charset=utf-8")).toBe('{"replayed":true}');
  });

  it("is fast for a long body", () => {
    const text = JSON.stringify({ text: '\\"'.repeat(300_000), replayed: false });
    expect(marked(text)).toBe(text.replace("false", "true"));
  });
});
