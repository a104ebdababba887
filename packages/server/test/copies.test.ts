/** Tests that three servers on one store behave like one server. */
import { describe, expect, onTestFinished, type TestContext, test, vi } from "vitest";
import { EVERY_SUBJECT, POSTGRES } from "../../nevertwice/test/scale/subjects.ts";
import { CACHE_MS } from "../src/access.ts";
import { createServer, type NevertwiceServer } from "../src/index.ts";
import { createSessions } from "../src/sessions.ts";

const SUBJECTS = EVERY_SUBJECT.filter(({ name }) => ["Postgres", "Redis Cluster"].includes(name));

type Three = readonly [NevertwiceServer, NevertwiceServer, NevertwiceServer];

interface Asking {
  readonly token?: string;
  readonly key?: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
}

async function ask(server: NevertwiceServer, target: string, { token, key, body, headers }: Asking = {}) {
  const [method, url] = target.split(" ") as ["GET" | "POST", string];
  const answer = await server.app.inject({
    method,
    url,
    headers: {
      host: "localhost",
      ...headers,
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(key !== undefined && { "idempotency-key": key }),
    },
    ...(body !== undefined && { payload: body }),
  });
  return { status: answer.statusCode, body: answer.json() };
}

describe.each(SUBJECTS)("three servers on one $name", ({ name, create }) => {
  async function three(context: TestContext): Promise<Three> {
    const store = await create(context);
    const holdsStore = name === "Postgres" ? undefined : await POSTGRES.create(context);
    const servers: NevertwiceServer[] = [];
    for (let count = 0; count < 3; count++) {
      const server = await createServer({ store, holdsStore, logLevel: "silent" });
      context.onTestFinished(() => server.close());
      servers.push(server);
    }
    return servers as unknown as Three;
  }

  test("a claim of one server is pending on all, and all return its outcome", async (context) => {
    const [first, second, third] = await three(context);
    const body = { operation: "charge", key: "order-1" };
    const granted = await ask(first, "POST /v1/claims", { body });
    expect(granted.status).toBe(201);
    for (const server of [first, second, third])
      expect((await ask(server, "POST /v1/claims", { body })).status).toBe(409);

    const { id, token } = granted.body;
    const kept = await ask(second, `POST /v1/claims/${id}/complete`, { body: { token, value: "paid" } });
    expect(kept.status).toBe(200);
    for (const server of [first, second, third]) {
      const replayed = await ask(server, "POST /v1/claims", { body });
      expect(replayed).toMatchObject({ status: 200, body: { outcome: { value: "paid" } } });
    }
  });

  test("of sixty concurrent claims of one key on all three servers, one is granted", async (context) => {
    const servers = await three(context);
    const body = { operation: "charge", key: "order-2" };
    const asked = Array.from({ length: 20 }, () =>
      servers.map((server) => ask(server, "POST /v1/claims", { body })),
    );
    const statuses = (await Promise.all(asked.flat())).map(({ status }) => status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(1);
    expect(statuses.filter((status) => status === 409)).toHaveLength(59);
  });

  test("a hold of one server is visible on all, and ends once", async (context) => {
    const servers = await three(context);
    const body = { resource: "seat-1", requester: "ada", durationMs: 60_000 };
    const placed = await Promise.all(
      servers.map((server) => ask(server, "POST /v1/holds", { key: "place-1", body })),
    );
    const [id, ...others] = new Set(placed.map((answer) => answer.body.id as string));
    expect([placed.map(({ status }) => status), others]).toEqual([[201, 201, 201], []]);

    const [first, second, third] = servers;
    expect((await ask(first, `POST /v1/holds/${id}/confirm`, { key: "end-1" })).status).toBe(200);
    expect((await ask(second, `POST /v1/holds/${id}/release`, { key: "end-2" })).body.reason).toBe(
      "not-held",
    );
    expect((await ask(third, `POST /v1/holds/${id}/confirm`, { key: "end-1" })).status).toBe(200);
    expect((await ask(third, `GET /v1/holds/${id}`)).body.state).toBe("confirmed");
  });

  test("all servers accept an access token of one, and refuse it after it was revoked", async (context) => {
    let aheadMs = 0;
    const laterBy = (ms: number) => {
      aheadMs += ms;
    };
    const passed = performance.now.bind(performance);
    const ahead = vi.spyOn(performance, "now").mockImplementation(() => passed() + aheadMs);
    onTestFinished(() => ahead.mockRestore());
    const [first, second, third] = await three(context);
    expect((await ask(third, "GET /v1/keys")).status).toBe(200);
    const { id, token } = await first.context.access.create({ name: "shop", role: "operator" });
    // The third may remember for a moment that no token was needed.
    laterBy(CACHE_MS);
    for (const server of [first, second, third]) {
      expect((await ask(server, "GET /v1/keys", { token })).status).toBe(200);
      expect((await ask(server, "GET /v1/keys")).status).toBe(401);
    }
    expect(await second.context.access.revoke(id)).toBe(true);
    laterBy(CACHE_MS);
    for (const server of [first, second, third])
      expect((await ask(server, "GET /v1/keys", { token })).status).toBe(401);
  });

  test("a session of one server works on all, and changes nothing without its CSRF header", async (context) => {
    const [first, second, third] = await three(context);
    const { token } = await first.context.access.create({ name: "desk", role: "operator" });
    const { store, access } = first.context;
    const opened = await createSessions({ store, access, isSecure: false }).open(token);
    const cookie = opened?.cookie.split(";")[0] ?? "";
    for (const server of [second, third]) {
      expect((await ask(server, "GET /v1/keys", { headers: { cookie } })).status).toBe(200);
      const body = { resource: "room", capacity: 2 };
      const change = { body, key: "declare-1" };
      expect((await ask(server, "POST /v1/resources", { ...change, headers: { cookie } })).status).toBe(403);
      const headers = { cookie, "x-nevertwice-csrf": opened?.session.csrf ?? "" };
      expect((await ask(server, "POST /v1/resources", { ...change, headers })).status).toBe(200);
    }
  });
});
