/** Webhooks: verified first, then looked up, then processed once; and the response to the sender. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Hono } from "hono";
import { Webhook as Reference } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import type { ConsumerEvent } from "../../src/events/index.ts";
import {
  github,
  standardWebhooks,
  stripe,
  twilio,
  type WebhookOptions,
  webhook,
} from "../../src/events/webhook.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore, manualClock } from "../../src/testing/index.ts";
import { deferred } from "../deferred.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const reference = new Reference(SECRET);
const HOUR_MS = 3_600_000;

function scene(options: Partial<WebhookOptions<unknown>> = {}) {
  const clock = manualClock();
  const store = faultyStore(memoryStore({ clock }));
  const guard = createGuard({ store, purgeEveryMs: 0 });
  const bodies: string[] = [];
  const events: ConsumerEvent[] = [];
  const receive = webhook<unknown>(guard, {
    name: "payments",
    scheme: standardWebhooks,
    secret: SECRET,
    clock,
    work: (message) => {
      bodies.push(message.text());
      return "done";
    },
    onEvent: (event) => events.push(event),
    ...options,
  });
  /** A request as a sender signs it at this moment. */
  function signed(id: string, body = '{"amount":10}', atMs = clock.now()) {
    const headers = {
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(atMs / 1_000)),
      "webhook-signature": reference.sign(id, new Date(atMs), body),
    };
    return { headers, body };
  }
  const send = (id: string, body?: string, atMs?: number) => receive.handle(signed(id, body, atMs));
  return { clock, store, guard, receive, bodies, events, signed, send };
}

const codeOf = ({ body }: { body: string | Uint8Array }) => JSON.parse(String(body)).code;

describe("a webhook", () => {
  it("EV-01 with the same id, a new timestamp and a new signature is answered 2xx and processed once", async () => {
    const { send, clock, bodies, events } = scene();
    expect(await send("msg_1")).toEqual({ status: 204, headers: {}, body: "" });
    clock.advance(5_000);
    expect((await send("msg_1")).status).toBe(204);
    expect(bodies).toEqual(['{"amount":10}']);
    expect(events.map(({ kind }) => kind)).toEqual(["done", "done-before"]);
  });

  it("EV-02 with an invalid signature is rejected, and its id is not recorded", async () => {
    const { signed, receive, send, store, bodies, events } = scene();
    const forged = { ...signed("msg_1"), body: '{"amount":1000}' };
    const answer = await receive.handle(forged);
    expect(answer.status).toBe(401);
    expect(codeOf(answer)).toBe("signature-invalid");
    expect(store.calls).toMatchObject({ claim: 0, read: 0 });
    expect((await send("msg_1")).status).toBe(204);
    expect((await receive.handle(forged)).status).toBe(401);
    expect(store.calls.claim).toBe(1);
    expect(bodies).toEqual(['{"amount":10}']);
    expect(events[0]).toMatchObject({
      kind: "refused",
      consumer: "payments",
      verdict: "reject",
      error: { code: "signature-invalid" },
    });
  });

  it("EV-03 with a timestamp 301 s old or ahead is rejected, and 300 s is not", async () => {
    const { send, clock, bodies } = scene();
    for (const seconds of [-301, 301]) {
      expect((await send("msg_1", "{}", clock.now() + seconds * 1_000)).status, `${seconds} s`).toBe(401);
    }
    expect(bodies).toEqual([]);
    for (const [id, seconds] of [
      ["msg_2", -300],
      ["msg_3", 300],
    ] as const) {
      expect((await send(id, "{}", clock.now() + seconds * 1_000)).status, `${seconds} s`).toBe(204);
    }
    const strict = scene({ toleranceMs: 10_000 });
    expect((await strict.send("msg_1", "{}", strict.clock.now() - 11_000)).status).toBe(401);
    expect((await strict.send("msg_1", "{}", strict.clock.now() - 10_000)).status).toBe(204);
  });

  it("EV-04 is suppressed at the sender's last retry, 75 h 35 min later, and for four days", async () => {
    const { send, clock, bodies } = scene();
    await send("msg_1");
    clock.advance(75 * HOUR_MS + 35 * 60_000);
    expect((await send("msg_1")).status).toBe(204);
    expect(bodies).toHaveLength(1);
    clock.advance(96 * HOUR_MS - (75 * HOUR_MS + 35 * 60_000) - 1);
    await send("msg_1");
    expect(bodies).toHaveLength(1);
    clock.advance(1);
    await send("msg_1");
    expect(bodies).toHaveLength(2);
  });

  it("EV-04 refuses a retention that is shorter than the sender's retries", () => {
    expect(() => scene({ retentionMs: 75 * HOUR_MS })).toThrow("standard-webhooks may send a message again");
    expect(() => scene({ scheme: github, retentionMs: 72 * HOUR_MS })).toThrow("github may send");
    expect(() => scene({ sender: "adyen", retentionMs: 96 * HOUR_MS })).toThrow("adyen may send");
    expect(() => scene({ sender: "adyen" })).not.toThrow();
  });

  it("EV-05 whose handler failed gets no 2xx, and is processed again when it is sent again", async () => {
    let works = 0;
    const { send } = scene({
      work: () => {
        if (++works === 1) throw new Error("the database is gone, password hunter2");
      },
    });
    const answer = await send("msg_1");
    expect(answer).toMatchObject({ status: 500, headers: { "retry-after": "1" } });
    expect(answer.body).toBe('{"code":"failed"}');
    expect((await send("msg_1")).status).toBe(204);
    expect(works).toBe(2);
  });

  it("EV-10 with the same id and other content is suppressed, with an alarm if contents are compared", async () => {
    const { send, bodies } = scene();
    await send("msg_1", "ten");
    expect((await send("msg_1", "twenty")).status).toBe(204);
    expect(bodies).toEqual(["ten"]);
    const compared = scene({ fingerprint: ({ body }) => body });
    await compared.send("msg_1", "ten");
    expect((await compared.send("msg_1", "twenty")).status).toBe(204);
    expect(compared.bodies).toEqual(["ten"]);
    expect(compared.events[1]).toMatchObject({ kind: "alarm", verdict: "acknowledge" });
  });

  it("EV-19 of Twilio with the same I-Twilio-Idempotency-Token is executed once and answered 2xx", async () => {
    const { receive, bodies } = scene({
      scheme: twilio,
      secret: "12345",
      respond: (value) => ({
        headers: { "content-type": "text/xml" },
        body: `<Response>${value}</Response>`,
      }),
    });
    const request = {
      url: "https://mycompany.com/myapp.php?foo=1&bar=2",
      headers: {
        "content-type": "application/x-www-form-urlencoded",
        "I-Twilio-Idempotency-Token": "token-1",
        "X-Twilio-Signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
      },
      body: "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212",
    };
    const twiml = { status: 200, headers: { "content-type": "text/xml" }, body: "<Response>done</Response>" };
    expect(await receive.handle(request)).toEqual(twiml);
    expect(await receive.handle(request)).toEqual(twiml);
    expect(bodies).toHaveLength(1);
  });

  it("passes its id, time, headers and raw bytes to the work", async () => {
    const seen: unknown[] = [];
    const { send, clock } = scene({
      work: ({ id, sentAtMs, header, body, json }, attempt) => {
        seen.push(id, sentAtMs, header("WEBHOOK-ID"), body, json(), attempt.number);
      },
    });
    await send("msg_1", '{ "a" : 1 }');
    expect(seen).toEqual([
      "msg_1",
      clock.now(),
      "msg_1",
      new TextEncoder().encode('{ "a" : 1 }'),
      { a: 1 },
      1,
    ]);
  });

  it("keeps equal ids of two tenants apart", async () => {
    const { receive, signed, bodies } = scene({ scope: ({ header }) => header("x-tenant") ?? "" });
    const from = (tenant: string) => {
      const { headers, body } = signed("msg_1");
      return receive.handle({ headers: { ...headers, "X-Tenant": tenant }, body });
    };
    for (const tenant of ["a", "b", "a"]) expect((await from(tenant)).status).toBe(204);
    expect(bodies).toHaveLength(2);
  });
});

describe("the response to the sender", () => {
  it("is 409 with Retry-After while the same webhook is being processed", async () => {
    const { promise: opened, resolve: open } = deferred();
    const { send } = scene({ work: () => opened, laterMs: 1_500 });
    const first = send("msg_1");
    // The first has claimed the key when the second is verified.
    const second = await send("msg_1");
    expect(second).toMatchObject({
      status: 409,
      headers: { "retry-after": "2" },
      body: '{"code":"pending"}',
    });
    open();
    expect((await first).status).toBe(204);
  });

  it("is 503 when the store does not answer", async () => {
    const { send, store, bodies } = scene({ storeTimeoutMs: 50 });
    store.setRates({ refuse: 1 });
    const answer = await send("msg_1");
    expect(answer).toMatchObject({
      status: 503,
      headers: { "retry-after": "1" },
      body: '{"code":"unavailable"}',
    });
    expect(bodies).toEqual([]);
  });

  it("is 409 when the outcome is unknown", async () => {
    const { send } = scene({
      onLapsed: "hold",
      onFailure: "unknown",
      work: () => {
        throw new Error("cut off");
      },
    });
    await send("msg_1");
    expect(await send("msg_1")).toMatchObject({ status: 409, body: '{"code":"unknown"}' });
  });

  it("is 400 when the request has no id", async () => {
    const { receive } = scene({ scheme: github, secret: "It's a Secret to Everybody" });
    const headers = {
      "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    };
    const answer = await receive.handle({ headers, body: "Hello, World!" });
    expect(answer.status).toBe(400);
    expect(codeOf(answer)).toBe("key-missing");
  });

  it("is 400 when the body with the id is not JSON, or has no id", async () => {
    for (const body of ["no json", "[1]", "null", '{"id":{}}', '{"other":"x"}']) {
      const { receive, bodies } = scene({ scheme: stripe, secret: undefined, verify: () => true });
      expect((await receive.handle({ headers: {}, body })).status, body).toBe(400);
      expect(bodies).toEqual([]);
    }
  });

  it('is 422 for a rejected webhook, or 204 with onRejected "accept"', async () => {
    const failing = {
      isPermanent: () => true,
      work: () => {
        throw new Error("no such customer");
      },
    };
    const { send } = scene(failing);
    expect(await send("msg_1")).toMatchObject({ status: 422, body: '{"code":"failed"}' });
    const accepting = scene({ ...failing, onRejected: "accept" });
    expect((await accepting.send("msg_1")).status).toBe(204);
    expect(accepting.events).toMatchObject([{ kind: "failed", verdict: "reject" }]);
    expect((await accepting.receive.handle({ headers: {}, body: "" })).status).toBe(401);
  });

  it("is 413 for a body that is too large, before it is hashed", async () => {
    const { receive, signed } = scene({ maxBodyBytes: 10 });
    const answer = await receive.handle(signed("msg_1", "x".repeat(11)));
    expect(answer.status).toBe(413);
    expect(codeOf(answer)).toBe("body-too-large");
    expect((await receive.handle(signed("msg_2", "x".repeat(10)))).status).toBe(204);
    // 11 bytes in 10 characters.
    expect((await receive.handle(signed("msg_3", `${"x".repeat(9)}é`))).status).toBe(413);
  });
});

describe("a custom verify function", () => {
  it("replaces the secret, and runs before the store is read", async () => {
    const { receive, store, bodies } = scene({
      scheme: github,
      secret: undefined,
      verify: async ({ header }) => header("authorization") === "Bearer ours",
    });
    const request = { headers: { "X-GitHub-Delivery": "d1", Authorization: "Bearer theirs" }, body: "{}" };
    expect((await receive.handle(request)).status).toBe(401);
    expect(store.calls.claim).toBe(0);
    const ours = { ...request, headers: { ...request.headers, Authorization: "Bearer ours" } };
    expect((await receive.handle(ours)).status).toBe(204);
    expect((await receive.handle(ours)).status).toBe(204);
    expect(bodies).toEqual(["{}"]);
  });

  it("refuses the request if it returns anything but true", async () => {
    const { receive } = scene({ secret: undefined, verify: () => "yes" as never });
    expect((await receive.handle({ headers: { "webhook-id": "1" }, body: "" })).status).toBe(401);
  });

  it("passes its errors to the caller", async () => {
    const { receive, store } = scene({
      secret: undefined,
      verify: () => {
        throw new Error("the key server is down");
      },
    });
    await expect(receive.handle({ headers: {}, body: "" })).rejects.toThrow("the key server is down");
    expect(store.calls.claim).toBe(0);
  });

  it("cannot be combined with a secret, and one of the two is required", () => {
    expect(() => scene({ verify: () => true })).toThrow("secret and verify: give exactly one");
    expect(() => scene({ secret: undefined })).toThrow("secret and verify: give exactly one");
  });
});

describe("in a framework", () => {
  it("is a function from Request to Response", async () => {
    const { receive, signed, bodies } = scene();
    const app = new Hono();
    app.post("/hooks", (context) => receive(context.req.raw));
    const call = () => app.request("/hooks", { method: "POST", ...signed("msg_1") });
    const first = await call();
    expect([first.status, await first.text()]).toEqual([204, ""]);
    expect((await call()).status).toBe(204);
    expect(bodies).toHaveLength(1);
    const forged = await app.request("/hooks", { method: "POST", ...signed("msg_2"), body: "{}" });
    expect(forged.status).toBe(401);
    expect(await forged.json()).toMatchObject({ code: "signature-invalid" });
    expect(forged.headers.get("content-type")).toBe("application/json");
  });

  it("reads at most maxBodyBytes of a Request, with or without a content-length", async () => {
    const { receive } = scene({ maxBodyBytes: 10 });
    const post = (init: RequestInit) => receive(new Request("http://x/", { method: "POST", ...init }));
    expect((await post({ body: "x".repeat(11) })).status).toBe(413);
    expect((await post({ body: "", headers: { "content-length": "11" } })).status).toBe(413);
    let pulls = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulls++;
        controller.enqueue(new Uint8Array(4));
      },
    });
    expect((await post({ body: endless, duplex: "half" } as RequestInit)).status).toBe(413);
    expect(pulls).toBeLessThan(10);
  });

  it("accepts the headers of node:http and the raw bytes", async () => {
    const { receive, signed, bodies } = scene();
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      const answer = await receive.handle({ headers: request.headers, body: Buffer.concat(chunks) });
      response.writeHead(answer.status, answer.headers).end(answer.body);
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    try {
      const { port } = server.address() as AddressInfo;
      const call = () => fetch(`http://127.0.0.1:${port}/`, { method: "POST", ...signed("msg_1") });
      expect((await call()).status).toBe(204);
      expect((await call()).status).toBe(204);
      expect(bodies).toHaveLength(1);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  it("refuses a body that was already parsed or read", async () => {
    const { receive, signed } = scene();
    const { headers } = signed("msg_1");
    await expect(receive.handle({ headers, body: { amount: 10 } as never })).rejects.toThrow(
      "options-invalid: the body is an object",
    );
    const request = new Request("http://x/", { method: "POST", headers, body: "{}" });
    await request.text();
    await expect(receive(request)).rejects.toThrow("options-invalid");
  });

  it("refuses unknown options, and invalid options of the consumer", () => {
    expect(() => scene({ tolerance: 5 } as never)).toThrow('"tolerance"');
    expect(() => scene({ name: "" })).toThrow("name is empty");
    expect(() => scene({ work: undefined } as never)).toThrow("work is missing");
    expect(() => scene({ maxBodyBytes: -1 })).toThrow("maxBodyBytes");
    expect(() => scene({ onRejected: "ignore" as never })).toThrow("onRejected");
    expect(() => scene({ clock: {} as never })).toThrow("clock");
  });
});
