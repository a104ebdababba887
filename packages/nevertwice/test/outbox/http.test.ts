/** Tests the HTTP deliverer: its signature is accepted by the reference library and by our own receiver, and each response has its verdict. */
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";
import { expect, onTestFinished, test } from "vitest";
import { standardWebhooks, webhook } from "../../src/events/webhook.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { type HttpDelivererOptions, httpDeliverer } from "../../src/outbox/http.ts";
import type { OutboxMessage } from "../../src/outbox/index.ts";
import { readVerdict } from "../../src/outbox/verdict.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const OTHER = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;

const message = (more: Partial<OutboxMessage> = {}): OutboxMessage => ({
  id: "2f1c",
  topic: "order.paid",
  key: "k",
  body: { amount: 5 },
  headers: {},
  createdAt: 0,
  ...more,
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

const deliver = (
  options: Partial<HttpDelivererOptions> & Pick<HttpDelivererOptions, "url">,
  sent = message(),
) =>
  httpDeliverer({ secret: SECRET, ...options })(sent, { signal: new AbortController().signal, attempt: 1 });

async function failure(work: unknown): Promise<unknown> {
  return Promise.resolve(work).then(
    () => undefined,
    (error: unknown) => error,
  );
}

test("is accepted by the reference library, with the old and with the new secret", async () => {
  const seen: unknown[] = [];
  const url = await serve(async (request, response) => {
    const body = await bodyOf(request);
    const given = request.headers as Record<string, string>;
    for (const secret of [SECRET, OTHER]) seen.push(new Webhook(secret).verify(body, given));
    expect(() => new Webhook(SECRET).verify(`${body} `, given)).toThrow();
    expect(given).toMatchObject({ "webhook-id": "2f1c", "content-type": "application/json", trace: "t" });
    expect(given.host).not.toBe("evil");
    response.writeHead(204).end();
  });
  await deliver({ url, secret: [OTHER, SECRET] }, message({ headers: { trace: "t", host: "evil" } }));
  expect(seen).toEqual([{ amount: 5 }, { amount: 5 }]);
});

test("is processed once by our own receiver when it is delivered twice", async () => {
  const runs: unknown[] = [];
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  const { handle } = webhook(guard, {
    name: "orders",
    scheme: standardWebhooks,
    secret: SECRET,
    work: (received) => void runs.push(received.text()),
  });
  const receive = async (
    _: unknown,
    { headers, body }: { headers: Record<string, string>; body: Uint8Array },
  ) => {
    const { status } = await handle({ headers, body });
    return new Response(null, { status });
  };
  for (const _ of [1, 2]) await deliver({ url: "http://receiver.test/", fetch: receive as never });
  expect(runs).toEqual(['{"amount":5}']);
});

test("gives each response its verdict", async () => {
  const answers: [number, Record<string, string>][] = [
    [500, {}],
    [302, { location: "/elsewhere" }],
    [429, { "retry-after": "7" }],
    [410, {}],
  ];
  let calls = 0;
  const url = await serve((request, response) => {
    expect(request.url).toBe("/hook");
    const [status, head] = answers[calls++] as (typeof answers)[number];
    response.writeHead(status, head);
    // It never ends: the deliverer does not wait for the body.
    response.write("x".repeat(100_000));
  });
  const verdicts: unknown[] = [];
  for (const _ of answers) verdicts.push(await failure(deliver({ url })));
  expect(verdicts.map((error) => (error as Error).message)).toEqual(
    [500, 302, 429, 410].map((status) => `the receiver answered ${status}`),
  );
  expect(verdicts.map(readVerdict)).toEqual([
    { isPermanent: false, retryAfterMs: undefined },
    { isPermanent: false, retryAfterMs: undefined },
    { isPermanent: false, retryAfterMs: 7_000 },
    { isPermanent: true, retryAfterMs: undefined },
  ]);
  expect(calls).toBe(4);
});

test("gives up on a receiver that does not answer in time", async () => {
  const url = await serve(() => {});
  expect(await failure(deliver({ url, timeoutMs: 50 }))).toMatchObject({ name: "TimeoutError" });
});

test("refuses a bad secret without printing it, and a bad URL", () => {
  for (const secret of ["whsec_short", "geheim", "", []])
    expect(() => httpDeliverer({ url: "https://a.test", secret } as never)).toThrow(
      expect.objectContaining({ code: "options-invalid", message: expect.not.stringContaining("geheim") }),
    );
  expect(() => httpDeliverer({ url: "ftp://a.test", secret: SECRET })).toThrow(/url/);
});
