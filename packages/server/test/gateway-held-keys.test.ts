/** Tests keys whose outcome is unknown: what the service is asked about them, what its answers do, and how long they are held. */
import type { RequestListener } from "node:http";
import { memoryStore } from "nevertwice/stores/memory";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { REPLAYED } from "../../nevertwice/test/http/replayed-header.ts";
import type { GatewayRule } from "../src/gateway/gateway-rules.ts";
import { completeChat, createCharge } from "./gateway/sdks.ts";
import { gatewayBefore, read, serviceOn } from "./gateway/stage.ts";

const TOKEN = "a token of the service";

beforeEach(() => vi.stubEnv("RECONCILE_TOKEN", TOKEN));

const warnings: string[] = [];
const onWarning = (warning: Error) => void warnings.push(warning.message);
beforeEach(() => void process.on("warning", onWarning));
afterEach(() => {
  process.off("warning", onWarning);
  warnings.length = 0;
});

interface Question {
  readonly key: string;
  readonly fence: number;
  readonly attempts: number;
  readonly request: { readonly operation: string; readonly scope: string; readonly key: string };
}

/** A service that loses the answer to each key's first request, and answers questions about keys as given. */
async function scene(
  answer: (question: Question) => RequestListener | object,
  rule: Partial<GatewayRule> = {},
  timeoutMs = 30_000,
) {
  const asked: { readonly question: Question; readonly authorization: string | undefined }[] = [];
  const forwarded: { readonly key: unknown; readonly fence: number; readonly attempt: unknown }[] = [];
  const upstream = await serviceOn(async (req, res) => {
    await read(req);
    const { "nevertwice-key": key, "nevertwice-fence": fence, "nevertwice-attempt": attempt } = req.headers;
    forwarded.push({ key, fence: Number(fence), attempt });
    if (forwarded.length === 1) req.socket.destroy();
    else res.setHeader("Content-Type", "application/json").end('{"id":"ch_2"}');
  });
  const oracle = await serviceOn(async (req, res) => {
    const question = JSON.parse(await read(req)) as Question;
    asked.push({ question, authorization: req.headers.authorization });
    const given = answer(question);
    if (typeof given === "function") (given as RequestListener)(req, res);
    else res.setHeader("Content-Type", "application/json").end(JSON.stringify(given));
  });
  const stage = await gatewayBefore(upstream, {
    routes: [
      {
        path: "/*",
        methods: ["POST"],
        required: false,
        scope: { header: "x-tenant" },
        onUpstreamLost: "unknown",
        reconcile: { url: `http://127.0.0.1:${oracle}/outcome`, token: "RECONCILE_TOKEN", timeoutMs },
        ...rule,
      },
    ],
  });
  const send = () => stage.send({ key: "k1", headers: { "x-tenant": "acme" } });
  return { stage, send, asked, forwarded };
}

const DONE = {
  status: "done",
  response: {
    status: 201,
    headers: { "content-type": "application/json", "set-cookie": "a=1" },
    body: '{"id":"ch_1"}',
  },
};

describe("a service that is asked about a held key", () => {
  test("gets key, fence and owner with the access token, after the client was told to retry", async () => {
    const { send, asked, forwarded } = await scene(() => DONE);
    const lost = await send();
    expect([lost.status, lost.headers["x-should-retry"]]).toEqual([502, "true"]);
    expect(asked).toEqual([]);
    await send();
    const [{ question, authorization } = expect.fail("nothing was asked")] = asked;
    expect(authorization).toBe(`Bearer ${TOKEN}`);
    expect(question).toEqual({
      key: forwarded[0]?.key,
      fence: expect.any(Number),
      attempts: 1,
      request: { operation: "POST /orders", scope: "header:x-tenant:s:acme", key: "k1" },
    });
    expect(question.key).toMatch(/^[\w-]{43}$/);
    expect(question.fence).toBeGreaterThan(forwarded[0]?.fence ?? Number.POSITIVE_INFINITY);
  });

  test("and says done: every retry gets its response, without the headers that are never replayed", async () => {
    const { send, asked, forwarded } = await scene(() => DONE);
    await send();
    for (let i = 0; i < 2; i++) {
      const { status, text, headers } = await send();
      expect([status, text, headers["content-type"], headers[REPLAYED], headers["set-cookie"]]).toEqual([
        201,
        '{"id":"ch_1"}',
        "application/json",
        "true",
        undefined,
      ]);
    }
    expect([asked.length, forwarded.length]).toEqual([1, 1]);
  });

  test("and says not-done: the retry runs, as the next attempt of the same key", async () => {
    const { send, forwarded } = await scene(() => ({ status: "not-done" }));
    await send();
    expect((await send()).text).toBe('{"id":"ch_2"}');
    expect(forwarded).toHaveLength(2);
    expect(forwarded[1]?.key).toBe(forwarded[0]?.key);
    expect(forwarded[1]?.fence).toBeGreaterThan(forwarded[0]?.fence ?? Number.POSITIVE_INFINITY);
    expect([forwarded[0]?.attempt, Number(forwarded[1]?.attempt) > 1]).toEqual(["1", true]);
  });

  const wrong: Record<string, RequestListener | object> = {
    unknown: { status: "unknown" },
    "another word": { status: "maybe" },
    "done without a response": { status: "done" },
    "a status that is none": { status: "done", response: { status: 99 } },
    "headers that are not text": { status: "done", response: { status: 200, headers: { a: 1 } } },
    "no JSON": (_req, res) => res.end("done"),
    "a failure": (_req, res) => res.writeHead(500).end('{"status":"not-done"}'),
    "a redirect": (_req, res) => res.writeHead(307, { Location: "/elsewhere" }).end('{"status":"not-done"}'),
    "nothing in time": () => {},
    "a closed connection": (req) => req.socket.destroy(),
    "an endless answer": (_req, res) => {
      const more = () => {
        if (!res.destroyed && res.write("x".repeat(65_536))) setImmediate(more);
        else if (!res.destroyed) res.once("drain", more);
      };
      more();
    },
  };
  test.each(Object.keys(wrong))("and answers with %s: the key stays held and nothing runs", async (name) => {
    const { send, forwarded } = await scene(
      () => wrong[name] ?? {},
      {},
      name === "nothing in time" ? 300 : 30_000,
    );
    await send();
    const again = await send();
    expect([again.status, again.code(), again.headers["x-should-retry"]]).toEqual([409, "unknown", "true"]);
    expect(forwarded).toHaveLength(1);
    expect(warnings.join()).not.toContain(TOKEN);
    if (name !== "unknown") expect(warnings.join()).toContain("gave no valid answer about a key");
  });

  test("is asked again by the next retry", async () => {
    let times = 0;
    const { send } = await scene(() => (++times === 1 ? { status: "unknown" } : DONE));
    await send();
    expect([(await send()).status, (await send()).status]).toEqual([409, 201]);
  });

  test.each([
    ["stripe", "stripe-v1", createCharge],
    ["openai", "ietf", completeChat],
  ] as const)("lets one call of the SDK %s end in one effect and its answer", async (_, profile, call) => {
    const { stage, forwarded } = await scene(() => DONE, { scope: "anyone", profile });
    expect(await call({ port: stage.port, key: "k", retries: 2 })).toMatchObject({ id: "ch_1" });
    expect(forwarded).toHaveLength(1);
  });
});

test("a token of reconcile that is not set is refused at the start", async () => {
  vi.stubEnv("RECONCILE_TOKEN", "short");
  await expect(scene(() => DONE)).rejects.toThrow(/token of reconcile.*at least 16 characters/s);
});

describe("a key that was held for longer than hold_for", () => {
  const DAY = 86_400_000;
  async function held(ageMs: number, rule: Partial<GatewayRule> = {}) {
    let effects = 0;
    const upstream = await serviceOn((req) => {
      effects++;
      req.socket.destroy();
    });
    let now = Date.now() - ageMs;
    const store = memoryStore({ clock: { now: () => now } });
    const route = { path: "/*", methods: ["POST"], required: false, scope: "anyone" as const };
    const routes = [{ ...route, onUpstreamLost: "unknown" as const, ...rule }];
    const { send } = await gatewayBefore(upstream, { routes, retention: DAY }, store);
    await send({ key: "k" });
    now = Date.now();
    const again = await send({ key: "k" });
    return { again, effects: () => effects };
  }

  test("is unknown until then, although its retention is over", async () => {
    const { again, effects } = await held(29 * DAY);
    expect([again.code(), effects()]).toEqual(["unknown", 1]);
  });

  test("is expired afterwards, and never runs", async () => {
    const { again, effects } = await held(31 * DAY);
    expect([again.status, again.code(), effects()]).toEqual([409, "expired", 1]);
    expect(again.headers["x-should-retry"]).toBe("false");
  });

  test("is expired after the time of its route", async () => {
    expect((await held(2 * DAY, { holdForMs: DAY })).again.code()).toBe("expired");
  });
});

test("a gateway that is killed leaves a held key, whatever it had sent", async () => {
  let now = Date.now();
  const store = memoryStore({ clock: { now: () => now } });
  let effects = 0;
  const upstream = await serviceOn(() => void effects++);
  const killed = await gatewayBefore(upstream, {}, store);
  killed.send({ key: "k" }).catch(() => {});
  await expect.poll(() => effects).toBe(1);
  now += 60_000;
  const other = await gatewayBefore(upstream, {}, store);
  expect((await other.send({ key: "k" })).code()).toBe("unknown");
  expect(effects).toBe(1);
});

test("a request that reached no service leaves its key free, and a retry can help", async () => {
  const { send } = await gatewayBefore(1);
  const answer = await send({ key: "k" });
  expect([answer.code(), answer.headers["x-should-retry"]]).toEqual(["upstream-unreachable", "true"]);
  expect((await send({ key: "k" })).code()).toBe("upstream-unreachable");
});
