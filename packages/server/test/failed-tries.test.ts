/** Limits on guessing access tokens, and their effect on other callers. */
import { describe, expect, test } from "vitest";
import { clientNetwork } from "../src/client-network.ts";
import { createFailedTries, MAX_FAILURES, WINDOW_MS } from "../src/failed-tries.ts";
import { sceneOf } from "./calling.ts";

const HERE = "203.0.113.7";
const ELSEWHERE = "203.0.113.8";
const WAYS = {
  bearer: (token: string) => ["GET /v1/keys", { token }] as const,
  "sign-in": (token: string) => ["POST /session", { body: { token } }] as const,
};

describe.each(Object.entries(WAYS))("guessing by %s", (_, way) => {
  test("gets 429 with Retry-After from the twenty-first wrong token on, only at that address", async () => {
    const { call, token } = await sceneOf();
    const right = await token({ role: "operator" });
    const guess = async (given: string, from: string) => {
      const [address, calling] = way(given);
      return call(address, { ...calling, from });
    };
    for (let index = 0; index < MAX_FAILURES; index++)
      expect((await guess(`wrong-${index}`, HERE)).status).toBe(401);
    const refused = await guess("wrong-again", HERE);
    expect([refused.status, refused.body.code, refused.body.title]).toEqual([
      429,
      "quota-exceeded",
      "Too many requests",
    ]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(50);
    expect(Number(refused.headers["retry-after"])).toBeLessThanOrEqual(60);
    // A right one is not told from a wrong one there.
    expect((await guess(right, HERE)).status).toBe(429);
    expect((await guess(right, ELSEWHERE)).status).toBe(200);
  });

  test("in parallel gets no more tries than in sequence", async () => {
    const { call, token } = await sceneOf();
    await token({});
    const made = (index: number) => `nt_${String(index).padStart(16, "0")}_${"x".repeat(43)}`;
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_unused, index) => {
        const [address, calling] = way(made(index));
        return call(address, { ...calling, from: HERE });
      }),
    );
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 401)).toHaveLength(MAX_FAILURES);
    expect(statuses.filter((status) => status === 429)).toHaveLength(100 - MAX_FAILURES);
  });
});

test("a running service behind the address of a guesser continues to work", async () => {
  const { call, token } = await sceneOf();
  const service = await token({ role: "service" });
  const policy = (given: string) => call("GET /v1/policy", { token: given, from: HERE });
  expect((await policy(service)).status).toBe(200);
  for (let index = 0; index <= MAX_FAILURES; index++) await policy(`wrong-${index}`);
  expect((await policy("wrong")).status).toBe(429);
  expect((await policy(service)).status).toBe(200);
});

test("a request without a token or with a session does not count", async () => {
  const { call, token } = await sceneOf();
  const operator = await token({ role: "operator" });
  const opened = await call("POST /session", { body: { token: operator }, from: HERE });
  const cookie = String(opened.headers["set-cookie"]).split(";")[0] as string;
  for (let index = 0; index < 2 * MAX_FAILURES; index++)
    expect((await call("GET /v1/keys", { from: HERE })).status).toBe(401);
  for (let index = 0; index <= MAX_FAILURES; index++)
    await call("GET /v1/keys", { token: `wrong-${index}`, from: HERE });
  expect((await call("GET /v1/keys", { headers: { cookie }, from: HERE })).status).toBe(200);
});

describe("the count", () => {
  const wrong = async () => undefined;
  const right = async () => "caller";

  test("starts again after a minute", async () => {
    let now = 0;
    const tries = createFailedTries(() => now);
    for (let index = 0; index < MAX_FAILURES; index++) await tries.attempt(HERE, `${index}`, wrong);
    await expect(tries.attempt(HERE, "x", right)).rejects.toMatchObject({ retryAfterSeconds: 60 });
    now = WINDOW_MS - 1;
    await expect(tries.attempt(HERE, "x", right)).rejects.toMatchObject({ retryAfterSeconds: 1 });
    now = WINDOW_MS;
    expect(await tries.attempt(HERE, "x", right)).toBe("caller");
    expect(await tries.attempt(HERE, "y", wrong)).toBeUndefined();
  });

  test("does not verify a token of a blocked address", async () => {
    const tries = createFailedTries(() => 0);
    for (let index = 0; index < MAX_FAILURES; index++) await tries.attempt(HERE, `${index}`, wrong);
    let isAsked = false;
    const verify = async () => {
      isAsked = true;
      return "caller";
    };
    await expect(tries.attempt(HERE, "x", verify)).rejects.toThrow("quota-exceeded");
    expect(isAsked).toBe(false);
  });

  test("is shared by addresses beyond the limit, and never refuses a valid token there", async () => {
    let now = 0;
    const tries = createFailedTries(() => now, 10);
    for (let index = 0; index < 10; index++) await tries.attempt(`10.0.0.${index}`, "x", wrong);
    const statuses: unknown[] = [];
    for (let index = 0; index < 1_001; index++)
      statuses.push(
        await tries.attempt(`10.1.${index >> 8}.${index & 255}`, "x", wrong).catch((e) => e.code),
      );
    expect(statuses.filter((status) => status === "quota-exceeded")).toHaveLength(1);
    expect(await tries.attempt("10.1.0.0", "y", right)).toBe("caller");
    // Those that were remembered are counted for themselves.
    expect(await tries.attempt("10.0.0.1", "x", wrong)).toBeUndefined();
    now = WINDOW_MS;
    expect(await tries.attempt("10.1.0.0", "x", wrong)).toBeUndefined();
  });

  test.each([
    [undefined, "unknown"],
    ["10.1.2.3", "10.1.2.3"],
    ["::ffff:10.1.2.3", "10.1.2.3"],
    ["::1", "0:0:0:0::/64"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:db8::5:6", "2001:db8:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ])("takes %s as %s", (address, source) => {
    expect(clientNetwork(address)).toBe(source);
  });
});
