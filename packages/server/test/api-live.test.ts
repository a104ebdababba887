/** What a dashboard shows of the present, the doctor's findings, and what clients may rely on. */
import { get } from "node:http";
import { expect, test } from "vitest";
import { callerOf, startServer } from "./api-client.ts";

test("the picture of the last minute counts what was claimed and replayed", async () => {
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

/** The data of the first so many events, then the rest until the end. */
function listen(url: string, token: string, count: number) {
  const events: { readonly inFlight: number }[] = [];
  let enough: () => void = () => {};
  const first = new Promise<void>((resolve) => {
    enough = resolve;
  });
  const ended = new Promise<void>((resolve, reject) => {
    const request = get(
      `${url}/v1/live/stream`,
      { headers: { authorization: `Bearer ${token}` } },
      (response) => {
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
      },
    );
    request.on("error", reject);
  });
  return { events, first, ended };
}

test("several clients are sent a picture a second, and their streams end when the server stops", async () => {
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

test("the doctor tells what the store survives, and asks it no more than it must", async () => {
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

test("the policy tells the windows of the API and the rules of the gateway", async () => {
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
