/** Tests the live figures, the findings of the doctor, and the policy document. */
import { get } from "node:http";
import { expect, onTestFinished, test, vi } from "vitest";
import { callerOf, callWith, startServer } from "./api-client.ts";

test("the snapshot of the last minute counts claims and replays", async () => {
  const server = await startServer();
  const shop = await callerOf(server, "service", { name: "shop" });
  const auditor = await callerOf(server, "auditor");
  const body = { operation: "charge", key: "order-1" };
  const { id, token } = (await shop("POST", "/v1/claims", body)).body;
  await shop("POST", "/v1/claims", body);
  await shop("POST", `/v1/claims/${id}/complete`, { token, value: 1 });
  await shop("POST", "/v1/claims", body);

  const { body: live } = await auditor("GET", "/v1/live");
  expect(live.seconds).toHaveLength(60);
  const total = (rate: string) =>
    live.seconds.reduce(
      (sum: number, { counts }: { counts: Record<string, number> }) => sum + (counts[rate] ?? 0),
      0,
    );
  expect([total("first"), total("pending"), total("replay")]).toEqual([1, 1, 1]);
  expect(live.store.title).toMatch(/memory/i);
});

/** The data of the first events, then the rest until the end. */
function listen(url: string, token: string, count: number) {
  return listenWith(url, { authorization: `Bearer ${token}` }, count);
}

function listenWith(url: string, headers: Readonly<Record<string, string>>, count: number) {
  const events: {
    readonly inFlight: number;
    readonly seconds: readonly { readonly counts: { readonly first: number } }[];
  }[] = [];
  let enough: () => void = () => {};
  const first = new Promise<void>((resolve) => {
    enough = resolve;
  });
  const ended = new Promise<void>((resolve, reject) => {
    const request = get(`${url}/v1/live/stream`, { headers }, (response) => {
      expect(response.headers["content-type"]).toMatch(/^text\/event-stream/);
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
        const parts = text.split("\n\n");
        text = parts.pop() as string;
        for (const part of parts) events.push(JSON.parse(part.replace(/^data: /, "")));
        if (events.length >= count) enough();
      });
      response.on("end", resolve);
      response.on("error", reject);
    });
    request.on("error", reject);
  });
  return { events, first, ended };
}

test("several clients get a snapshot every second, and their streams end when the server stops", async () => {
  const server = await startServer({ listen: { host: "127.0.0.1", port: 0 } });
  const { token } = await server.context.access.create({ name: "a", role: "auditor" });
  const { url } = await server.listen();
  const clients = [listen(url, token, 2), listen(url, token, 2), listen(url, token, 2)];
  await Promise.all(clients.map(({ first }) => first));
  for (const { events } of clients) expect(events[0]).toMatchObject({ inFlight: 0 });
  await server.close();
  await Promise.all(clients.map(({ ended }) => ended));
});

test("a stream ends when its access token is revoked", async () => {
  const server = await startServer({ listen: { host: "127.0.0.1", port: 0 } });
  await server.context.access.create({ name: "other", role: "operator" });
  const { id, token } = await server.context.access.create({ name: "a", role: "auditor" });
  const { url } = await server.listen();
  const client = listen(url, token, 1);
  await client.first;
  await server.context.access.revoke(id);
  await client.ended;
});

test("a stream ends when the session that opened it is closed", async () => {
  const server = await startServer({ listen: { host: "127.0.0.1", port: 0 } });
  const { token } = await server.context.access.create({ name: "a", role: "auditor" });
  const { url } = await server.listen();
  const json = { "content-type": "application/json" };
  const opened = await fetch(`${url}/session`, {
    method: "POST",
    headers: json,
    body: JSON.stringify({ token }),
  });
  const cookie = opened.headers.get("set-cookie")?.split(";")[0] ?? "";
  const { csrf } = (await opened.json()) as { readonly csrf: string };
  const client = listenWith(url, { cookie }, 1);
  await client.first;
  await fetch(`${url}/session`, { method: "DELETE", headers: { cookie, "x-nevertwice-csrf": csrf } });
  await client.ended;
});

test("a stream that was opened without a token ends when the first token is created", async () => {
  const server = await startServer({ listen: { host: "127.0.0.1", port: 0 } });
  const { url } = await server.listen();
  const client = listenWith(url, {}, 1);
  await client.first;
  await server.context.access.create({ name: "a", role: "auditor" });
  await client.ended;
});

test("a stream counts the events of its token's namespace", async () => {
  const server = await startServer({ listen: { host: "127.0.0.1", port: 0 } });
  const { token } = await server.context.access.create({ name: "a", role: "auditor", namespace: "orders" });
  await server.context.guard("loans").run({ operation: "grant", key: "1" }, () => 1);
  const { url } = await server.listen();
  const client = listen(url, token, 2);
  await client.first;
  for (const { seconds } of client.events)
    expect(seconds.filter(({ counts }) => counts.first > 0)).toEqual([]);
});

test("a token can open eight streams, all tokens together 200, and a closed stream makes room", async () => {
  const server = await startServer({ listen: { host: "127.0.0.1", port: 0 }, drain: 50 });
  const { url } = await server.listen();
  /** With their responses: `fetch` closes the stream of a response that nothing refers to. */
  const streams = new Map<string, { readonly controller: AbortController; readonly response: Response }[]>();
  const open = async (token: string): Promise<Response> => {
    const controller = new AbortController();
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`${url}/v1/live/stream`, { headers, signal: controller.signal });
    if (response.ok) streams.set(token, [...(streams.get(token) ?? []), { controller, response }]);
    else controller.abort();
    return response;
  };
  onTestFinished(() => {
    for (const { controller } of [...streams.values()].flat()) controller.abort();
  });
  const tokens: string[] = [];
  for (let index = 0; index < 26; index++)
    tokens.push((await server.context.access.create({ name: `a${index}`, role: "auditor" })).token);
  const [first = "", last = ""] = [tokens[0], tokens[25]];
  for (const token of tokens.slice(0, 25))
    for (let index = 0; index < 8; index++) expect((await open(token)).status).toBe(200);

  const callFirst = callWith(server, first);
  const tooMany = await callFirst("GET", "/v1/live/stream");
  expect(tooMany).toMatchObject({ status: 429, body: { code: "quota-exceeded", retryable: true } });
  expect(tooMany.body.detail).toContain("8 streams");
  expect(tooMany.headers["retry-after"]).toBe("10");
  expect((await callWith(server, last)("GET", "/v1/live/stream")).body.detail).toContain("200 streams");

  streams.get(first)?.pop()?.controller.abort();
  await vi.waitFor(async () => expect((await open(last)).status).toBe(200));
});

test("a HEAD request for the stream is answered and leaves no stream open", async () => {
  const server = await startServer({ listen: { host: "127.0.0.1", port: 0 }, drain: 50 });
  const { url } = await server.listen();
  for (let index = 0; index < 20; index++)
    expect((await fetch(`${url}/v1/live/stream`, { method: "HEAD" })).status).toBe(200);
  const controller = new AbortController();
  onTestFinished(() => controller.abort());
  expect((await fetch(`${url}/v1/live/stream`, { signal: controller.signal })).status).toBe(200);
});

test("the doctor reports what the store survives, and caches its result", async () => {
  const server = await startServer();
  const shop = await callerOf(server, "service");
  let asked = 0;
  const { store } = server.context;
  const settings = store.settings?.bind(store);
  Object.assign(store, {
    settings() {
      asked++;
      return settings?.();
    },
  });
  for (let index = 0; index < 3; index++) {
    const { body } = await shop("GET", "/v1/doctor");
    expect(body).toMatchObject({ rung: null, survives: { "our-crash": { survives: "no" } } });
  }
  expect(asked).toBe(1);
});

test("the policy contains the time windows of the API and the rules of the gateway", async () => {
  const rule = {
    path: "/payments",
    methods: ["POST"],
    required: true,
    scope: { header: "x-tenant" },
    retentionMs: 3_600_000,
    onUpstreamLost: "unknown",
  } as const;
  const server = await startServer({
    lease: 45_000,
    routes: [rule],
    upstream: "http://127.0.0.1:9",
    gatewayScope: "anyone",
  });
  const shop = await callerOf(server, "service");
  const { body } = await shop("GET", "/v1/policy");
  expect(body.windows).toEqual({
    leaseMs: 45_000,
    retentionMs: 86_400_000,
    eventRetentionMs: 2_592_000_000,
    holdsWindowMs: 600_000,
  });
  expect(body.gateway).toMatchObject([
    {
      path: "/payments",
      onUpstreamLost: "unknown",
      policy: {
        key: { required: true, methods: ["POST"], scope: "caller" },
        retention: { ms: 3_600_000, duration: "PT1H" },
        running: { lease: { ms: 45_000 } },
      },
    },
    // What no rule of the file is about has the rule that the scope makes.
    { path: "/*", methods: ["POST", "PATCH"], policy: { key: { required: false, scope: "anyone" } } },
  ]);
});
