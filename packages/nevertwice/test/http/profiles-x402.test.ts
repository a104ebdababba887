/** Tests the profile x402, over the fetch adapter: the key inside the payment, and an answer that belongs to one payment. */
import { describe, expect, it } from "vitest";
import { scene, slow } from "./profile-scene.ts";

const ID = "pay_7d5d747be160e280504c099d984bcfe0";

function payment(id: unknown, more: object = {}): Readonly<Record<string, string>> {
  const info = id === undefined ? { required: false } : { required: false, id };
  return carried({
    x402Version: 2,
    payload: { signature: "0x2d6a" },
    extensions: { "payment-identifier": { info } },
    ...more,
  });
}

function carried(value: unknown): Readonly<Record<string, string>> {
  return { "payment-signature": Buffer.from(JSON.stringify(value)).toString("base64") };
}

describe("x402", () => {
  it.each([
    [15, 400],
    [16, 201],
    [128, 201],
    [129, 400],
  ])("AG-10 answers an id of %i characters with %i", async (length, status) => {
    const { send } = scene({ profile: "x402" });
    expect((await send({ headers: payment("x".repeat(length)) })).status).toBe(status);
  });

  it.each(["pay 7d5d747be160e280504c", "pay.7d5d747be160e280504c", "", 7, null, {}])(
    "AG-10 refuses the id %j",
    async (id) => {
      const { send, runs } = scene({ profile: "x402" });
      const refused = await send({ headers: payment(id) });
      expect(refused.status).toBe(400);
      expect(await refused.json()).toMatchObject({ code: "key-invalid" });
      expect(runs()).toBe(0);
    },
  );

  it("AG-11 answers 409 to the same id with another body", async () => {
    const { send, runs } = scene({ profile: "x402" });
    await send({ headers: payment(ID) });
    const conflict = await send({ headers: payment(ID), body: { amount: 6 } });
    expect(conflict.status).toBe(409);
    expect(conflict.headers.has("retry-after")).toBe(false);
    expect(await conflict.json()).toMatchObject({ code: "conflict", status: 409 });
    expect(runs()).toBe(1);
  });

  it("AG-11 answers 409 to the same id in another payment, so that a caller cannot fetch what another caller paid for", async () => {
    const { send } = scene({ profile: "x402" });
    await send({ headers: payment(ID) });
    const forged = await send({ headers: payment(ID, { payload: { signature: "0xforged" } }) });
    expect(forged.status).toBe(409);
  });

  it("AG-11 answers 409 to the same id on another path", async () => {
    const { send } = scene({ profile: "x402" });
    await send({ headers: payment(ID), path: "/weather" });
    expect((await send({ headers: payment(ID), path: "/news" })).status).toBe(409);
  });

  it("replays a lost answer with its settlement, on a GET too", async () => {
    const { send, answers, runs } = scene({ profile: "x402", replayHeaders: ["x-order"] });
    answers(() => new Response("sunny", { headers: { "payment-response": "eyJ9", "x-order": "7" } }));
    const sent = { method: "GET", path: "/weather", headers: payment(ID) };
    await send(sent);
    const replay = await send(sent);
    expect(await replay.text()).toBe("sunny");
    expect(replay.headers.get("payment-response")).toBe("eyJ9");
    expect(replay.headers.get("x-order")).toBe("7");
    expect(runs()).toBe(1);
  });

  it("lets a failed payment be made again with the same id", async () => {
    const { send, answers, runs } = scene({ profile: "x402" });
    answers(() => new Response("{}", { status: 402 }));
    await send({ headers: payment(ID) });
    answers(() => new Response("sunny"));
    const paid = await send({ headers: payment(ID, { payload: { signature: "0xnew" } }) });
    expect(await paid.text()).toBe("sunny");
    expect(runs()).toBe(2);
  });

  it("does not process a resend while the first request runs", async () => {
    const { send, answers, runs } = scene({ profile: "x402" });
    const { handler, began, finish } = slow(() => new Response("sunny"));
    answers(handler);
    const first = send({ headers: payment(ID) });
    await began;
    expect((await send({ headers: payment(ID) })).status).toBe(409);
    finish();
    await first;
    expect(runs()).toBe(1);
  });

  it("lets the handler ask for a payment, but refuses one without an id if ids are required", async () => {
    const { send, answers, runs } = scene({ profile: "x402", required: true });
    answers(() => new Response("{}", { status: 402, headers: { "payment-required": "e30=" } }));
    expect((await send()).status).toBe(402);
    expect(runs()).toBe(1);
    for (const headers of [payment(undefined), carried({ x402Version: 2 })]) {
      const refused = await send({ headers });
      expect(refused.status).toBe(400);
      expect(await refused.json()).toMatchObject({ code: "key-missing" });
    }
    expect(runs()).toBe(1);
  });

  it("runs payments without an id each time if ids are not required", async () => {
    const { send, runs } = scene({ profile: "x402" });
    await send({ headers: payment(undefined) });
    await send({ headers: payment(undefined) });
    expect(runs()).toBe(2);
  });

  it.each([
    ["not base64", "{}"],
    ["not JSON", Buffer.from("{").toString("base64")],
    ["not UTF-8", Buffer.from([0x22, 0xff, 0x22]).toString("base64")],
    ["a list", Buffer.from("[]").toString("base64")],
    ["two payments", "e30=, e30="],
    ["nothing", ""],
    ["far too long", payment(ID, { note: "x".repeat(50_000) })["payment-signature"] ?? ""],
  ])("refuses a payment that is %s", async (_what, value) => {
    const { send, runs } = scene({ profile: "x402" });
    const refused = await send({ headers: { "payment-signature": value } });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ code: "key-invalid" });
    expect(runs()).toBe(0);
  });

  it("ignores inherited members of a payment", async () => {
    const { send, runs } = scene({ profile: "x402", required: true });
    const text = `{"__proto__":{"extensions":{"payment-identifier":{"info":{"id":"${ID}"}}}}}`;
    const headers = { "payment-signature": Buffer.from(text).toString("base64") };
    expect((await send({ headers })).status).toBe(400);
    expect(runs()).toBe(0);
  });

  it("accepts the URL-safe base64 alphabet as well", async () => {
    const { send, runs } = scene({ profile: "x402" });
    const { "payment-signature": value = "" } = payment(ID, { note: "???>>>" });
    expect(value).toMatch(/[+/]/);
    const headers = { "payment-signature": Buffer.from(value, "base64").toString("base64url") };
    await send({ headers });
    await send({ headers });
    expect(runs()).toBe(1);
  });
});
