/** Tests a store that fails while the server runs: no two callers are told that they are first, and the server still stops. */
import { randomUUID } from "node:crypto";
import { describe, expect, type TestContext, test } from "vitest";
import { type FaultProxy, startProxy } from "../../nevertwice/test/services/proxy.ts";
import { sharedUrl } from "../../nevertwice/test/services/services.ts";
import { serving } from "./cli-process.ts";

/** Redis behind a proxy that can fail on demand, with keys of this test only. */
async function redis(context: TestContext): Promise<{ readonly proxy: FaultProxy; readonly store: string }> {
  const proxy = await startProxy(sharedUrl(context, "redis"));
  context.onTestFinished(() => proxy.stop());
  const join = proxy.url.includes("?") ? "&" : "?";
  return { proxy, store: `${proxy.url}${join}prefix=outage:${randomUUID()}:` };
}

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: an answer is what the test says it is.
  readonly body: any;
}

async function post(url: string, path: string, body: object): Promise<Answer> {
  const headers = { ...AUTHORIZATION, "content-type": "application/json" };
  const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, body: await response.json() };
}

/** Not in the store, so that the server can authenticate callers during the outage. */
const ACCESS = "an-access-token-that-nobody-guesses";
const AUTHORIZATION = { authorization: `Bearer ${ACCESS}` };

const serve = (...args: readonly string[]) => serving("--access-token", ACCESS, ...args);

const OWN = { operation: "charge", key: "order-1", token: "anna's token, which nobody guesses" };
const OTHER = { operation: "charge", key: "order-1", token: "bert's token, which nobody guesses" };

describe.concurrent("while the store is down", { timeout: 120_000 }, () => {
  test.for(["takeover", "hold"])(
    "a claim that was not answered is its token's, at any server and after the first one has ended (%s)",
    async (onLapsed, context) => {
      const { proxy, store } = await redis(context);
      const first = await serve("--store", store, "--drain", "10s");
      const second = await serve("--store", store);
      // The claim reaches the store, and no reply comes back.
      proxy.holdReplies();
      const lost = await post(first.url, "/v1/claims", { ...OWN, onLapsed });
      expect(lost).toMatchObject({ status: 503, body: { code: "unavailable", id: expect.any(String) } });
      expect(lost.body.detail).toContain("the same token again");
      proxy.releaseReplies();
      const again = await post(second.url, "/v1/claims", { ...OWN, onLapsed });
      expect(again).toMatchObject({ status: 201, body: { id: lost.body.id, number: 1 } });
      // Whatever the first server had still to tell the store, it has told it once it has ended.
      first.child.kill("SIGTERM");
      expect((await first.ending).code).toBe(0);
      const other = await post(second.url, "/v1/claims", { ...OTHER, onLapsed });
      expect(other).toMatchObject({ status: 409, body: { code: "pending" } });
      second.child.kill("SIGTERM");
      expect((await second.ending).code).toBe(0);
    },
  );

  test("a mark that is not recorded is first for no caller, even if its server is killed and the outage outlasts its lease", async (context) => {
    const { proxy, store } = await redis(context);
    const killed = await serve("--store", store, "--lease", "1s");
    // The claim passes; what would record the mark does not.
    proxy.cutRequest(1_000, (chunk) => chunk.includes("recorded-by-anna"));
    const event = { key: "evt-1", retentionMs: 600_000 };
    const lost = await post(killed.url, "/v1/events", { ...event, value: "recorded-by-anna" });
    expect(lost).toMatchObject({ status: 503, body: { code: "unavailable" } });
    killed.child.kill("SIGKILL");
    await killed.ending;
    proxy.heal();
    const server = await serve("--store", store, "--lease", "1s");
    // It waits for the lease of the dead server's claim.
    const other = await post(server.url, "/v1/events", { ...event, value: "recorded-by-bert" });
    expect(other).toEqual({ status: 201, body: { first: true } });
    expect(await post(server.url, "/v1/events", event)).toEqual({ status: 200, body: { first: false } });
    server.child.kill("SIGTERM");
    expect((await server.ending).code).toBe(0);
  });

  test("a mark whose server was killed before it answered belongs to its token only", async (context) => {
    const { store } = await redis(context);
    const killed = await serve("--store", store);
    const token = "anna's token, which nobody guesses";
    await post(killed.url, "/v1/events", { key: "evt-2", token });
    killed.child.kill("SIGKILL");
    await killed.ending;
    const server = await serve("--store", store);
    const mark = (more: object) => post(server.url, "/v1/events", { key: "evt-2", ...more });
    expect(await mark({})).toEqual({ status: 200, body: { first: false } });
    expect(await mark({ token: OTHER.token })).toEqual({ status: 200, body: { first: false } });
    expect(await mark({ token })).toEqual({ status: 201, body: { first: true } });
    server.child.kill("SIGTERM");
    expect((await server.ending).code).toBe(0);
  });

  test("the server stops on a signal, even with unfinished writes", async (context) => {
    const { proxy, store } = await redis(context);
    const server = await serve("--store", store, "--drain", "1s");
    const live = new AbortController();
    const { signal } = live;
    const stream = await fetch(`${server.url}/v1/live/stream`, { headers: AUTHORIZATION, signal });
    expect(stream.status).toBe(200);
    const kept = await post(server.url, "/v1/claims", { operation: "charge", key: "before" });
    expect(kept.status).toBe(201);
    proxy.refuse();
    proxy.cutAll();
    const answers = await Promise.all([
      post(server.url, "/v1/claims", { operation: "charge", key: "order-2" }),
      post(server.url, "/v1/claims", OWN),
      post(server.url, `/v1/claims/${kept.body.id}/complete`, { token: kept.body.token, value: 1 }),
      post(server.url, "/v1/events", { key: "evt-3" }),
      post(server.url, "/v1/events/release", { key: "evt-3" }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([503, 503, 503, 503, 503]);
    expect(answers[1]?.body).toMatchObject({ id: expect.any(String) });
    server.child.kill("SIGTERM");
    const { code } = await server.ending;
    live.abort();
    expect(code).toBe(0);
  });
});
