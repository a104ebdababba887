/** Tests each scheme against what its sender publishes, and against the reference library where there is one. */
import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { Webhook as Reference } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import {
  github,
  type Incoming,
  shopify,
  slack,
  square,
  standardWebhooks,
  standardWebhooksEd25519,
  stripe,
  twilio,
  type WebhookOptions,
  type WebhookScheme,
  webhook,
} from "../../src/events/webhook.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { receiver } from "./webhook-scene.ts";

/** One test vector, and the changes that its signature must not allow. */
async function holds(
  scheme: WebhookScheme,
  options: Partial<WebhookOptions<string>>,
  request: Incoming,
  seconds?: number,
) {
  const { status, ids } = receiver(scheme, options, seconds);
  expect(await status(request)).toBe(204);
  const changed = typeof request.body === "string" ? `${request.body} ` : request.body;
  expect(await status({ ...request, body: changed }), "another body").toBe(401);
  if (scheme.signature.digest !== "ed25519") {
    const elsewhere = receiver(scheme, { ...options, secret: "c2VjcmV0LW9mLXNvbWVib2R5LWVsc2U=" }, seconds);
    expect(await elsewhere.status(request), "another secret").toBe(401);
  }
  expect(await status({ ...request, headers: {} }), "no headers").toBe(401);
  return ids;
}

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

describe("Standard Webhooks", () => {
  const body = '{"test": 2432232314}';
  const headers = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  };

  it("accepts the specification's own example", async () => {
    const ids = await holds(standardWebhooks, { secret: SECRET }, { headers, body }, 1_614_265_330);
    expect(ids).toEqual(["msg_p5jXN8AQM9LWM0D4loKWxJek"]);
  });

  it("accepts what the reference library signs, and refuses what it refuses", async () => {
    const reference = new Reference(SECRET);
    const nowSeconds = Math.floor(Date.now() / 1_000);
    const bodies = ["", "{}", "a.b.c", "ünïcödé ☃", `{"n":${"9".repeat(2_000)}}`];
    for (const [at, text] of bodies.entries()) {
      const signed = {
        "webhook-id": `msg_${at}`,
        "webhook-timestamp": String(nowSeconds),
        "webhook-signature": reference.sign(`msg_${at}`, new Date(nowSeconds * 1_000), text),
      };
      expect(() => reference.verify(text, signed, { jsonParse: false })).not.toThrow();
      const { status } = receiver(standardWebhooks, { secret: SECRET }, nowSeconds);
      expect(await status({ headers: signed, body: text }), text).toBe(204);
      for (const broken of [
        { ...signed, "webhook-id": "msg_other" },
        { ...signed, "webhook-timestamp": String(nowSeconds - 1) },
        { ...signed, "webhook-timestamp": "soon" },
        { ...signed, "webhook-signature": signed["webhook-signature"].replace("v1,", "v2,") },
        { ...signed, "webhook-signature": "v1," },
        { ...signed, "webhook-signature": "v1,AAAA" },
        { ...signed, "webhook-signature": "" },
      ]) {
        expect(() => reference.verify(text, broken, { jsonParse: false })).toThrow();
        expect(await status({ headers: broken, body: text })).toBe(401);
      }
    }
  });

  it("accepts the secret with or without its prefix, and as bytes", async () => {
    const bytes = Buffer.from("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "base64");
    for (const secret of [SECRET, SECRET.slice("whsec_".length), bytes]) {
      const { status } = receiver(standardWebhooks, { secret }, 1_614_265_330);
      expect(await status({ headers, body })).toBe(204);
    }
  });

  it("accepts any of several signatures and secrets, so that both sides can rotate theirs", async () => {
    const old = new Reference("whsec_b2xkIHNlY3JldCBvZiBvdXJz");
    const stale = old.sign("msg_1", new Date(1_614_265_330_000), body);
    const fresh = new Reference(SECRET).sign("msg_1", new Date(1_614_265_330_000), body);
    const signedBy = (signature: string) => ({
      headers: { ...headers, "webhook-id": "msg_1", "webhook-signature": signature },
      body,
    });
    const { status } = receiver(standardWebhooks, { secret: SECRET }, 1_614_265_330);
    expect(await status(signedBy(`${stale} v1a,zzzz ${fresh}`))).toBe(204);
    expect(await status(signedBy(stale))).toBe(401);
    const both = receiver(
      standardWebhooks,
      { secret: [SECRET, "whsec_b2xkIHNlY3JldCBvZiBvdXJz"] },
      1_614_265_330,
    );
    expect(await both.status(signedBy(stale))).toBe(204);
    expect(await both.status(signedBy(fresh))).toBe(204);
  });

  it("refuses an id with a dot, since two requests could have the same signature", async () => {
    const { status, ids } = receiver(standardWebhooks, { secret: SECRET }, 1_614_265_330);
    const signature = new Reference(SECRET).sign("msg.1", new Date(1_614_265_330_000), body);
    expect(
      await status({ headers: { ...headers, "webhook-id": "msg.1", "webhook-signature": signature }, body }),
    ).toBe(401);
    expect(ids).toEqual([]);
  });

  it("verifies a signature of a private key with the public key", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const raw = publicKey.export({ format: "der", type: "spki" }).subarray(-32);
    const secret = `whpk_${raw.toString("base64")}`;
    const mark = sign(null, Buffer.from(`msg_1.1614265330.${body}`), privateKey).toString("base64");
    const signed = { ...headers, "webhook-id": "msg_1", "webhook-signature": `v1a,${mark}` };
    await holds(standardWebhooksEd25519, { secret }, { headers: signed, body }, 1_614_265_330);
    const { status } = receiver(standardWebhooksEd25519, { secret }, 1_614_265_330);
    expect(await status({ headers: { ...signed, "webhook-signature": "v1a,AAAA" }, body })).toBe(401);
  });
});

describe("schemes of other senders", () => {
  it("GitHub: the example of its documentation", async () => {
    const ids = await holds(
      github,
      { secret: "It's a Secret to Everybody" },
      {
        headers: {
          "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
          "X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        },
        body: "Hello, World!",
      },
    );
    expect(ids).toEqual(["72d3162e-cc78-11e3-81ab-4c9367dc0958"]);
  });

  it("Slack: the example of its documentation, whose id is in the body where there is one", async () => {
    const body =
      "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const options = {
      secret: "8f742231b10e8888abcd99yyyzzz85a5",
      key: ({ text }: { text(): string }) => new URLSearchParams(text()).get("trigger_id") ?? undefined,
    };
    const headers = {
      "X-Slack-Request-Timestamp": "1531420618",
      "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    };
    await holds(slack, options, { headers, body }, 1_531_420_618);
  });

  it("Stripe: a timestamp and several signatures in one header, and the id in the body", async () => {
    // By: printf '1492774577.{"id":"evt_1","object":"event"}' | openssl dgst -sha256 -hmac whsec_test_secret
    const mark = "654b43d3508ecadb3f8cefc4bc7d3d2bdc5ba9e03bf2c89b2d0657a8e24e4543";
    const stale = "0".repeat(64);
    const header = `t=1492774577,v1=${stale},v1=${mark},v0=${stale}`;
    const body = '{"id":"evt_1","object":"event"}';
    const request = { headers: { "Stripe-Signature": header }, body };
    const secret = "whsec_test_secret";
    expect(await holds(stripe, { secret }, request, 1_492_774_577)).toEqual(["evt_1"]);
    const { status } = receiver(stripe, { secret }, 1_492_774_577);
    const only = (elements: string) => status({ headers: { "Stripe-Signature": elements }, body });
    expect(await only(`t=1492774577,v0=${mark}`), "another version").toBe(401);
    expect(await only(`v1=${mark}`), "no timestamp").toBe(401);
    expect(await only(`t=1492774578,v1=${mark}`), "another timestamp").toBe(401);
  });

  const CALL = {
    CallSid: "CA1234567890ABCDE",
    Caller: "+14158675309",
    Digits: "1234",
    From: "+14158675309",
    To: "+18005551212",
  };
  const TWILIO_URL = "https://mycompany.com/myapp.php?foo=1&bar=2";

  it("EV-19 Twilio: the example of its documentation, over the URL and the sorted form", async () => {
    const request = {
      url: TWILIO_URL,
      headers: {
        "content-type": "application/x-www-form-urlencoded; charset=utf-8",
        "I-Twilio-Idempotency-Token": "3a0d-1",
        "X-Twilio-Signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
      },
      body: new URLSearchParams(Object.entries(CALL).reverse()).toString(),
    };
    expect(await holds(twilio, { secret: "12345" }, request)).toEqual(["3a0d-1"]);
    const { status } = receiver(twilio, { secret: "12345" });
    expect(await status({ ...request, url: `${TWILIO_URL}&baz=3` }), "another address").toBe(401);
    expect(await status({ headers: request.headers, body: request.body }), "no address").toBe(401);
    const behind = receiver(twilio, { secret: "12345", url: TWILIO_URL });
    expect(await behind.status({ ...request, url: "http://10.0.0.7:8080/myapp.php" })).toBe(204);
  });

  it("Twilio: a body that is not a form is not signed, and is refused", async () => {
    // The signature of the URL alone.
    const mark = createHmac("sha1", "12345").update(TWILIO_URL).digest("base64");
    const headers = { "I-Twilio-Idempotency-Token": "1", "X-Twilio-Signature": mark };
    const { status } = receiver(twilio, { secret: "12345", url: TWILIO_URL });
    expect(await status({ headers, body: "" })).toBe(204);
    expect(await status({ headers: { ...headers, "content-type": "application/json" }, body: "{}" })).toBe(
      401,
    );
    expect(await status({ headers, body: "Digits=1" })).toBe(401);
    // As a form it would be empty, and the signature would match.
    expect(await status({ headers: { ...headers, "content-type": "application/json" }, body: "&" })).toBe(
      401,
    );
  });

  it("Shopify and Square: base64 over the body, and over the URL and the body", async () => {
    // By openssl dgst -sha256 -hmac secret -binary | base64
    const shop = {
      headers: {
        "X-Shopify-Webhook-Id": "b54557e4",
        "X-Shopify-Hmac-SHA256": "A971iWIMgT8Zj9A9eWfikrFj7wQ16/Qwcc4OlRl2PLc=",
      },
      body: '{"id":1}',
    };
    expect(await holds(shopify, { secret: "secret" }, shop)).toEqual(["b54557e4"]);
    const till = {
      url: "https://example.com/hooks",
      headers: { "x-square-hmacsha256-signature": "//Wa7Ny/v1KkYKpWijqUREAbDoYQAyf96uYz98H4qIk=" },
      body: '{"event_id":"e1"}',
    };
    expect(await holds(square, { secret: "secret" }, till)).toEqual(["e1"]);
  });

  it("a custom scheme is a few lines of data: timestamp and body under an Ed25519 key in hex", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const secret = publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("hex");
    const own: WebhookScheme = {
      id: { json: "id" },
      timestamp: { header: "x-signature-timestamp" },
      signature: { header: "x-signature-ed25519", digest: "ed25519", encoding: "hex" },
      signed: "{timestamp}{body}",
      secret: { encoding: "hex" },
    };
    const body = '{"id":8027}';
    const mark = sign(null, Buffer.from(`1700000000${body}`), privateKey).toString("hex");
    const headers = { "X-Signature-Timestamp": "1700000000", "X-Signature-Ed25519": mark };
    expect(await holds(own, { secret }, { headers, body })).toEqual(["8027"]);
  });
});

describe("a scheme", () => {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });

  it.each([
    ["none", undefined, "scheme is missing"],
    ["no id", { ...github, id: undefined }, "scheme.id is missing"],
    ["an id nowhere", { ...github, id: {} }, "{ header } or { json }"],
    ["an id in two places", { ...github, id: { header: "a", json: "b" } }, "{ header } or { json }"],
    ["no signature", { ...github, signature: undefined }, "scheme.signature is missing"],
    [
      "a signature in no header",
      { ...github, signature: { digest: "ed25519", encoding: "hex" } },
      "scheme.signature.header is missing",
    ],
    [
      "a digest that is unknown",
      { ...github, signature: { ...github.signature, digest: "md5" } },
      "scheme.signature.digest",
    ],
    [
      "an encoding that is unknown",
      { ...github, signature: { ...github.signature, encoding: "text" } },
      "scheme.signature.encoding",
    ],
    ["nothing signed", { ...github, signed: undefined }, "scheme.signed is missing"],
    ["the body not signed", { ...github, signed: "{url}" }, "{body} or {form}"],
    ["something signed that is unknown", { ...github, signed: "{nonce}{body}" }, "{nonce}"],
    ["an id signed that is in the body", { ...stripe, signed: "{id}{timestamp}{body}" }, "an id in a header"],
    [
      "a timestamp that is not signed",
      { ...stripe, signed: "{body}" },
      "is needed if signed contains {timestamp}",
    ],
    [
      "a timestamp signed that is nowhere",
      { ...github, signed: "{timestamp}{body}" },
      "is needed if signed contains {timestamp}",
    ],
    ["a misspelt member", { ...github, signeture: 1 }, "signeture"],
    ["a sender that is unknown", { ...github, sender: "nobody" }, "scheme.sender"],
  ])("with %s is refused", (_, scheme, says) => {
    const make = () => webhook(guard, { name: "hooks", scheme, secret: "s", work: () => {} } as never);
    expect(make).toThrow(says);
    expect(make).toThrow("options-invalid");
  });

  it.each([
    ["missing", github, undefined],
    ["an empty list", github, []],
    ["empty", github, ""],
    ["empty in a list", github, ["good", ""]],
    ["no base64", standardWebhooks, "whsec_ab!cd"],
    ["nothing but its prefix", standardWebhooks, "whsec_"],
    ["no public key", standardWebhooksEd25519, SECRET.slice("whsec_".length)],
    ["a number", github, 7],
  ])("with a secret that is %s is refused", (_, scheme, secret) => {
    const make = () => webhook(guard, { name: "hooks", scheme, secret, work: () => {} } as never);
    expect(make).toThrow(/secret/);
    expect(make).toThrow("options-invalid");
  });
});
