/** `createFetch` against real servers: one key, the same bytes, and a retry only where it can do no harm. */
import { describe, expect, it, vi } from "vitest";
import { createFetch, isNoAnswer, type RetryEvent } from "../../src/client/index.ts";
import { systemTimer, type Timer } from "../../src/core/clock.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { CREATED, eventually, flyingTime, problem, type Step, startServer } from "./server.ts";

/** Real time, and pauses too short to wait for. */
const QUICK = { firstPauseMs: 1, maxPauseMs: 1 } as const;
const ORDER = { method: "POST", body: '{"sku":"a-1"}' } as const;
const QUOTED_UUID = /^"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"$/;

describe("the key", () => {
  it("CL-01 is created before the first try and is the same on every retry", async () => {
    const server = await startServer("reset", "reset", CREATED);
    const response = await createFetch(QUICK)(`${server.url}/orders`, ORDER);
    expect(response.status).toBe(201);
    expect(await response.text()).toBe("created");
    expect(server.keys).toHaveLength(3);
    expect(new Set(server.keys).size).toBe(1);
    expect(server.keys[0]).toMatch(QUOTED_UUID);
    expect(server.received.map(({ body }) => body.toString())).toEqual(new Array(3).fill(ORDER.body));
  });

  it("CL-02 differs from one call to the next", async () => {
    const server = await startServer(CREATED);
    const fetch = createFetch(QUICK);
    await fetch(server.url, ORDER);
    await fetch(server.url, ORDER);
    await fetch(server.url, { ...ORDER, method: "PATCH" });
    expect(new Set(server.keys).size).toBe(3);
  });

  it.each([
    ["option", { idempotencyKey: "order-17" }, '"order-17"'],
    ["header", { headers: { "idempotency-key": "order-17" } }, "order-17"],
    ["header, quoted", { headers: [["IDEMPOTENCY-KEY", '"order-17"']] as [string, string][] }, '"order-17"'],
    ["option over header", { idempotencyKey: "new", headers: { "Idempotency-Key": "old" } }, '"new"'],
  ])("CL-03 is the caller's own if there is one: %s", async (_, init, sent) => {
    const server = await startServer({ status: 503 }, CREATED);
    await createFetch(QUICK)(server.url, { ...ORDER, ...init });
    expect(server.keys).toEqual([sent, sent]);
  });

  it("CL-03 is used unchanged when it comes with a Request", async () => {
    const server = await startServer({ status: 503 }, CREATED);
    const headers = { "Idempotency-Key": "of-the-request" };
    await createFetch(QUICK)(new Request(server.url, { ...ORDER, headers }));
    expect(server.keys).toEqual(["of-the-request", "of-the-request"]);
  });

  it("is sent with the methods in the option methods, and with others if the caller gives one", async () => {
    const server = await startServer(CREATED);
    const fetch = createFetch({ methods: ["DELETE"] });
    await fetch(server.url, { method: "DELETE" });
    await fetch(server.url, ORDER);
    await fetch(server.url, { method: "PUT", body: "x", idempotencyKey: "k" });
    await fetch(server.url);
    expect(server.keys).toEqual([expect.stringMatching(QUOTED_UUID), undefined, '"k"', undefined]);
  });

  it("can use another header, another format and another function", async () => {
    const server = await startServer(CREATED);
    const options = { header: "PayPal-Request-Id", format: "bare", newKey: () => "made-here" } as const;
    await createFetch(options)(server.url, ORDER);
    expect(server.received[0]?.headers["paypal-request-id"]).toBe("made-here");
    expect(server.keys).toEqual([undefined]);
  });

  it("CL-15 is in the headers for the platform's fetch, so that no browser adds another", async () => {
    const handed: (string | null)[] = [];
    const fetch = createFetch({
      fetch: async (_, init) => {
        handed.push(new Headers(init?.headers).get("Idempotency-Key"));
        return new Response();
      },
    });
    await fetch("/relative", ORDER);
    await fetch("/relative", { ...ORDER, idempotencyKey: "mine" });
    expect(handed).toEqual([expect.stringMatching(QUOTED_UUID), '"mine"']);
  });

  it("is refused if a browser would drop it silently", async () => {
    const fetch = createFetch();
    const failure = { code: "options-invalid" };
    await expect(fetch("http://localhost/", { ...ORDER, mode: "no-cors" })).rejects.toMatchObject(failure);
    const request = new Request("http://localhost/", { ...ORDER, mode: "no-cors" });
    await expect(fetch(request)).rejects.toMatchObject(failure);
  });

  it("is refused when it is empty", async () => {
    const failure = { code: "key-invalid" };
    const fetch = createFetch();
    await expect(fetch("http://localhost/", { ...ORDER, idempotencyKey: "" })).rejects.toMatchObject(failure);
    const headers = { "Idempotency-Key": "" };
    await expect(fetch("http://localhost/", { ...ORDER, headers })).rejects.toMatchObject(failure);
    await expect(createFetch({ newKey: () => "é" })("http://localhost/", ORDER)).rejects.toMatchObject(
      failure,
    );
  });
});

describe("retries", () => {
  it("CL-04 a 409 with Retry-After, with the same key", async () => {
    const time = flyingTime();
    const pending = problem(409, { code: "pending", retryable: true }, { "retry-after": "1" });
    const server = await startServer(pending, pending, CREATED);
    const response = await createFetch(time.ports)(server.url, ORDER);
    expect(response.status).toBe(201);
    expect(server.keys).toEqual(new Array(3).fill(server.keys[0]));
    expect(time.pauses.every((ms) => ms >= 1_000)).toBe(true);
  });

  it("CL-04 no 409 without Retry-After: the work may be done, or its outcome unknown", async () => {
    const server = await startServer(problem(409, { code: "unknown" }), CREATED);
    const response = await createFetch(QUICK)(server.url, ORDER);
    expect(response.status).toBe(409);
    expect(server.received).toHaveLength(1);
  });

  it("a 409 without Retry-After if retryStatuses has it", async () => {
    const server = await startServer({ status: 409 }, CREATED);
    await createFetch({ ...QUICK, retryStatuses: [409] })(server.url, ORDER);
    expect(server.received).toHaveLength(2);
  });

  it.each([400, 422])("CL-05 never a %i, whatever else it says", async (status) => {
    const headers = { "retry-after": "0", "x-should-retry": "true" };
    const server = await startServer(
      problem(status, { code: "conflict", retryable: true }, headers),
      CREATED,
    );
    const response = await createFetch(QUICK)(server.url, ORDER);
    expect(response.status).toBe(status);
    expect(await response.json()).toEqual({ code: "conflict", retryable: true });
    expect(server.received).toHaveLength(1);
  });

  it.each([408, 425, 429, 500, 502, 503, 504])("a %i, with the same key", async (status) => {
    const server = await startServer({ status, body: "not now" }, CREATED);
    const response = await createFetch(QUICK)(server.url, ORDER);
    expect(response.status).toBe(201);
    expect(server.keys[1]).toBe(server.keys[0]);
  });

  it.each([200, 201, 204, 304, 401, 402, 403, 404, 405, 410, 412, 413, 501, 505])("no %i", async (status) => {
    const server = await startServer({ status }, CREATED);
    const response = await createFetch(QUICK)(server.url, ORDER);
    expect(response.status).toBe(status);
    expect(server.received).toHaveLength(1);
  });

  it.each(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])("a %s without a key", async (method) => {
    const server = await startServer({ status: 503 }, "reset", { status: 200 });
    const response = await createFetch(QUICK)(server.url, { method });
    expect(response.status).toBe(200);
    expect(server.keys).toEqual([undefined, undefined, undefined]);
  });

  it("no problem with retryable: false", async () => {
    const server = await startServer(problem(500, { code: "scope-missing", retryable: false }), CREATED);
    const response = await createFetch(QUICK)(server.url, ORDER);
    expect(response.status).toBe(500);
    expect(await response.json()).toMatchObject({ code: "scope-missing" });
    expect(server.received).toHaveLength(1);
  });

  it.each(["stripe-should-retry", "x-should-retry"])("CL-13 nothing that %s: false forbids", async (name) => {
    const server = await startServer({ status: 500, headers: { [name]: "false" } }, CREATED);
    const response = await createFetch(QUICK)(server.url, ORDER);
    expect(response.status).toBe(500);
    expect(server.received).toHaveLength(1);
  });

  it.each(["stripe-should-retry", "x-should-retry"])(
    "CL-13 what %s: true allows, after a pause",
    async (name) => {
      const time = flyingTime();
      const server = await startServer({ status: 409, headers: { [name]: "true" } }, CREATED);
      const response = await createFetch({ ...time.ports, random: () => 0.5 })(server.url, ORDER);
      expect(response.status).toBe(201);
      expect(time.pauses).toEqual([250]);
    },
  );

  it("CL-10 no POST without a key: neither an error of the connection nor an answer", async () => {
    const server = await startServer("reset", { status: 503 }, CREATED);
    const fetch = createFetch(QUICK);
    const lost = await fetch(server.url, { ...ORDER, idempotencyKey: false }).catch(
      (error: unknown) => error,
    );
    expect(isNoAnswer(lost) && [lost.tries, lost.hasKey]).toEqual([1, false]);
    const refused = await createFetch({ ...QUICK, methods: [] })(server.url, ORDER);
    expect(refused.status).toBe(503);
    expect(server.keys).toEqual([undefined, undefined]);
  });
});

describe("limits of retries", () => {
  it("returns the last answer when the tries run out", async () => {
    const server = await startServer({ status: 503, body: "busy" });
    const response = await createFetch({ ...QUICK, retries: 2 })(server.url, ORDER);
    expect([response.status, await response.text()]).toEqual([503, "busy"]);
    expect(server.received).toHaveLength(3);
  });

  it("throws the last error of fetch, with the number of tries and without the key", async () => {
    const server = await startServer("reset");
    const fetch = createFetch({ ...QUICK, retries: 2 });
    const error = await fetch(server.url, { ...ORDER, idempotencyKey: "secret-key" }).catch(
      (e: unknown) => e,
    );
    if (!isNoAnswer(error)) throw new Error("it is no NoAnswer", { cause: error });
    expect(error).toBeInstanceOf(TypeError);
    expect([error.tries, error.hasKey]).toEqual([3, true]);
    expect(error.cause).toBeInstanceOf(TypeError);
    expect(error.message).toContain((error.cause as Error).message);
    expect(error.message).not.toContain("secret");
    expect(isNoAnswer(error.cause)).toBe(false);
  });

  it("retries nothing with retries: 0", async () => {
    const server = await startServer("reset", CREATED);
    await expect(createFetch({ retries: 0 })(server.url, ORDER)).rejects.toMatchObject({ tries: 1 });
  });

  it("CL-06 waits for Retry-After plus jitter", async () => {
    const time = flyingTime();
    const server = await startServer({ status: 503, headers: { "retry-after": "2" } }, CREATED);
    await createFetch({ ...time.ports, random: () => 0.5 })(server.url, ORDER);
    expect(time.pauses).toEqual([2_250]);
  });

  it("CL-06 waits in real time", async () => {
    const server = await startServer({ status: 503, headers: { "retry-after": "1" } }, CREATED);
    const startedAt = performance.now();
    await createFetch(QUICK)(server.url, ORDER);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(995);
  });

  it("CL-07 reads a date without a time zone as GMT, in every time zone", async () => {
    vi.stubEnv("TZ", "America/New_York");
    expect(new Date(0).getHours()).toBe(19);
    const time = flyingTime();
    const headers = { "retry-after": "Thu Jan  1 00:00:03 2026", date: "Thu, 01 Jan 2026 00:00:00 GMT" };
    const server = await startServer({ status: 503, headers }, CREATED);
    await createFetch({ ...time.ports, random: () => 0 })(server.url, ORDER);
    expect(time.pauses).toEqual([3_000]);
  });

  it.each([
    ["Thu, 01 Jan 2026 00:00:03 GMT", 3_250],
    ["Thursday, 01-Jan-26 00:00:03 GMT", 3_250],
    ["Thu Jan  1 00:00:03 2026", 3_250],
    ["Wed, 31 Dec 2025 23:59:00 GMT", 250],
    ["0", 250],
    ["-1", 250],
    ["1.5", 250],
    ["soon", 250],
    ["2026-01-01T00:00:03Z", 250],
    ["January 2, 2026", 250],
  ])("CL-07 reads Retry-After: %s", async (retryAfter, pauseMs) => {
    const time = flyingTime();
    const headers = { "retry-after": retryAfter, date: "Thu, 01 Jan 2026 00:00:00 GMT" };
    const server = await startServer({ status: 503, headers }, CREATED);
    // By the server's clock: ours is a year off.
    const clock = manualClock(Date.UTC(2025, 0, 1));
    const response = await createFetch({ ...time.ports, clock, random: () => 0.5 })(server.url, ORDER);
    expect(response.status).toBe(201);
    expect(time.pauses).toEqual([pauseMs]);
  });

  it("CL-07 compares a date with the local clock if the server sends no Date", async () => {
    const time = flyingTime();
    const answers = [
      new Response("", { status: 503, headers: { "retry-after": "Thu, 01 Jan 2026 00:00:03 GMT" } }),
      new Response("done"),
    ];
    const fetch = createFetch({
      timer: time.ports.timer,
      fetch: async () => answers.shift() as Response,
      clock: manualClock(Date.UTC(2026, 0, 1)),
      random: () => 0,
    });
    expect(await (await fetch("/", ORDER)).text()).toBe("done");
    expect(time.pauses).toEqual([3_000]);
  });

  it.each(["999999", "61", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])(
    "CL-08 gives up rather than wait for Retry-After: %s",
    async (retryAfter) => {
      const server = await startServer({ status: 503, headers: { "retry-after": retryAfter } }, CREATED);
      const response = await createFetch()(server.url, ORDER);
      expect(response.status).toBe(503);
      expect(server.received).toHaveLength(1);
    },
  );

  it("CL-09 pauses between 0 and a bound that doubles up to a maximum", async () => {
    const pausesWith = async (random: () => number) => {
      const time = flyingTime();
      const server = await startServer({ status: 503 });
      const options = { ...time.ports, random, retries: 6, firstPauseMs: 100, maxPauseMs: 1_000 };
      await createFetch(options)(server.url, ORDER);
      return time.pauses;
    };
    expect(await pausesWith(() => 1)).toEqual([100, 200, 400, 800, 1_000, 1_000]);
    expect(await pausesWith(() => 0.25)).toEqual([25, 50, 100, 200, 250, 250]);
    expect(await pausesWith(() => 0)).toEqual([0, 0, 0, 0, 0, 0]);
    const drawn = await pausesWith(Math.random);
    expect(new Set(drawn).size).toBeGreaterThan(1);
  });

  it("has enough retries for work of ten seconds, even if the first connection breaks and every pause is as short as it can be", async () => {
    const time = flyingTime();
    let tries = 0;
    // As the HTTP layer answers: Retry-After is the time that the first request has run, at least a second.
    const fetch = async () => {
      if (++tries === 1) throw new TypeError("fetch failed");
      const seconds = time.pauses.reduce((sum, ms) => sum + ms, 0) / 1_000;
      if (seconds > 10) return new Response("created", { status: 201 });
      const headers = { "retry-after": String(Math.max(1, Math.ceil(seconds))) };
      return new Response("pending", { status: 409, headers });
    };
    const response = await createFetch({ ...time.ports, random: () => 0, fetch })("http://localhost/", ORDER);
    expect(response.status).toBe(201);
    expect(tries).toBe(7);
  });

  it("CL-11 stops before its deadline, and the deadline is shorter than the server's window", async () => {
    const time = flyingTime();
    const server = await startServer({ status: 503, headers: { "retry-after": "20" } });
    const options = { ...time.ports, retries: 100, deadlineMs: 50_000, windowMs: 60_000, random: () => 0 };
    const response = await createFetch(options)(server.url, ORDER);
    expect(response.status).toBe(503);
    expect(time.pauses).toEqual([20_000, 20_000]);
    expect(() => createFetch({ deadlineMs: 60_000, windowMs: 60_000 })).toThrow(/shorter than windowMs/);
  });

  it("aborts a try that takes too long, and retries with the same key", async () => {
    const server = await startServer("hang", CREATED);
    const response = await createFetch({ ...QUICK, timeoutMs: 200 })(server.url, ORDER);
    expect(response.status).toBe(201);
    expect(server.keys[1]).toBe(server.keys[0]);
  });

  it("stops at its deadline, also in the middle of a try", async () => {
    const server = await startServer("hang");
    const fetch = createFetch({ ...QUICK, timeoutMs: 0, deadlineMs: 200 });
    const error = await fetch(server.url, ORDER).catch((e: unknown) => e);
    expect(error).toMatchObject({ tries: 1, cause: { name: "TimeoutError" } });
  });

  it("treats a deadline timer that fired early as the end", async () => {
    const timer = {
      now: () => 0,
      after: (_: number, action: () => void) => clearImmediate.bind(null, setImmediate(action)),
    };
    const fetch = createFetch({ timer, timeoutMs: 0, fetch: () => new Promise(() => {}) });
    await expect(fetch("/", ORDER)).rejects.toMatchObject({ tries: 1, cause: { name: "TimeoutError" } });
  });

  it("starts no try after a pause that exceeded the deadline", async () => {
    let now = 0;
    let sent = 0;
    const timer: Timer = {
      now: () => now,
      after(ms, action) {
        if (ms >= 1_000) return () => {};
        now += 200_000;
        const pause = setImmediate(action);
        return () => clearImmediate(pause);
      },
    };
    const refused = async () => {
      sent++;
      return new Response("", { status: 503 });
    };
    const fetch = createFetch({ timer, fetch: refused });
    await expect(fetch("/", ORDER)).rejects.toMatchObject({ tries: 1, cause: { name: "TimeoutError" } });
    expect(sent).toBe(1);
  });

  it("ends at the deadline if fetch ignores the signal", async () => {
    const fetch = createFetch({ fetch: () => new Promise(() => {}), deadlineMs: 50 });
    await expect(fetch("/", ORDER)).rejects.toMatchObject({ tries: 1, hasKey: true });
  });

  it("does not bound the reading of an answer", async () => {
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        await new Promise((resolve) => setTimeout(resolve, 150));
        controller.enqueue(new TextEncoder().encode("slow"));
        controller.close();
      },
    });
    const fetch = createFetch({
      timeoutMs: 50,
      deadlineMs: 60,
      fetch: async (_, init) => {
        init?.signal?.addEventListener("abort", () => body.cancel());
        return new Response(body);
      },
    });
    expect(await (await fetch("/", ORDER)).text()).toBe("slow");
  });
});

describe("the caller's signal", () => {
  it("ends a pause at once, with its own reason", async () => {
    const server = await startServer({ status: 503, headers: { "retry-after": "30" } });
    const controller = new AbortController();
    const reason = new Error("the user left");
    const fetch = createFetch({ onRetry: () => controller.abort(reason) });
    const { signal } = controller;
    await expect(fetch(server.url, { ...ORDER, signal })).rejects.toBe(reason);
    expect(server.received).toHaveLength(1);
  });

  it("leaves no timer behind, which would keep the process alive", async () => {
    const live = new Set<() => void>();
    const timer: Timer = {
      now: systemTimer.now,
      after(ms, action) {
        const cancel = systemTimer.after(ms, action);
        const stop = () => {
          live.delete(stop);
          cancel();
        };
        live.add(stop);
        return stop;
      },
    };
    const server = await startServer({ status: 503, headers: { "retry-after": "30" } });
    const controller = new AbortController();
    const fetch = createFetch({ timer, onRetry: () => setImmediate(() => controller.abort()) });
    await expect(fetch(server.url, { ...ORDER, signal: controller.signal })).rejects.toThrow();
    expect(live.size).toBe(0);
  });

  it("is also the reason of the last try", async () => {
    const server = await startServer("hang");
    const controller = new AbortController();
    const answer = createFetch({ retries: 0 })(server.url, { ...ORDER, signal: controller.signal });
    await eventually(() => server.received.length).toBe(1);
    controller.abort();
    await expect(answer).rejects.toBe(controller.signal.reason);
  });

  it("ends a try at once, with its own reason, and nothing is tried after it", async () => {
    const server = await startServer("hang", CREATED);
    const controller = new AbortController();
    const answer = createFetch(QUICK)(server.url, { ...ORDER, signal: controller.signal });
    await eventually(() => server.received.length).toBe(1);
    controller.abort();
    await expect(answer).rejects.toBe(controller.signal.reason);
    expect(server.received).toHaveLength(1);
  });

  it("counts when it comes with a Request", async () => {
    const server = await startServer("hang");
    const controller = new AbortController();
    const answer = createFetch(QUICK)(new Request(server.url, { ...ORDER, signal: controller.signal }));
    await eventually(() => server.received.length).toBe(1);
    controller.abort();
    await expect(answer).rejects.toMatchObject({ name: "AbortError" });
  });

  it("ends a try at once if fetch ignores the signal", async () => {
    const controller = new AbortController();
    const fetch = createFetch({
      fetch: () => {
        controller.abort();
        return new Promise(() => {});
      },
    });
    await expect(fetch("/", { ...ORDER, signal: controller.signal })).rejects.toMatchObject({
      name: "AbortError",
    });
  });

  it("sends nothing if it fired before", async () => {
    const server = await startServer(CREATED);
    const signal = AbortSignal.abort();
    await expect(createFetch(QUICK)(server.url, { ...ORDER, signal })).rejects.toBe(signal.reason);
    expect(server.received).toHaveLength(0);
  });

  it("ends the reading of the answer as well", async () => {
    const server = await startServer({ status: 200, body: "x".repeat(5_000_000) });
    const controller = new AbortController();
    const response = await createFetch(QUICK)(server.url, { ...ORDER, signal: controller.signal });
    controller.abort();
    await expect(response.text()).rejects.toMatchObject({ name: "AbortError" });
  });
});

describe("other behaviour", () => {
  it("calls onRetry for every retry, without the key", async () => {
    const events: RetryEvent[] = [];
    const server = await startServer("reset", { status: 429 }, CREATED);
    const onRetry = (event: RetryEvent) => {
      events.push(event);
      throw new Error("watching breaks nothing");
    };
    const fetch = createFetch({ ...QUICK, random: () => 0, onRetry });
    await fetch(`${server.url}/orders`, { ...ORDER, idempotencyKey: "secret" });
    const all = { method: "POST", url: `${server.url}/orders`, hasKey: true, pauseMs: 0 };
    expect(events).toEqual([
      { ...all, tries: 1, error: expect.any(TypeError) },
      { ...all, tries: 2, status: 429 },
    ]);
    expect(JSON.stringify(events)).not.toContain("secret");
  });

  it("frees the connection of an answer that is not read", async () => {
    const large = { status: 503, body: "x".repeat(1_000_000) } satisfies Step;
    const server = await startServer(large, large, large, large, large, large, { status: 200 });
    const response = await createFetch({ ...QUICK, retries: 6 })(server.url, ORDER);
    await response.text();
    expect(server.received).toHaveLength(7);
    // The platform keeps one or two for later; it would hold all seven if they were waiting to be read.
    await eventually(() => server.connections()).toBeLessThanOrEqual(2);
  });

  it("follows a redirect with the key, as fetch does", async () => {
    const server = await startServer({ status: 308, headers: { location: "/moved" } }, CREATED);
    const response = await createFetch(QUICK)(server.url, ORDER);
    expect([response.status, response.redirected]).toEqual([201, true]);
    expect(server.received.map(({ path }) => path)).toEqual(["/", "/moved"]);
    expect(server.keys[1]).toBe(server.keys[0]);
  });

  it("throws fetch's error for an invalid request, without a retry", async () => {
    const fetch = createFetch(QUICK);
    await expect(fetch("http://localhost/", { method: "PO ST" })).rejects.toThrow(TypeError);
    await expect(fetch(new Request("http://localhost/", ORDER), { headers: { "a b": "" } })).rejects.toThrow(
      TypeError,
    );
  });

  it("can be used as a fetch", async () => {
    const server = await startServer(CREATED);
    const standIn: typeof globalThis.fetch = createFetch(QUICK);
    expect((await standIn(new URL(server.url), { method: "POST" })).status).toBe(201);
    expect((await standIn(server.url, new Request(server.url, ORDER))).status).toBe(201);
    expect(server.received.map(({ method, body }) => [method, body.toString()])).toEqual([
      ["POST", ""],
      ["POST", ORDER.body],
    ]);
    expect(server.keys).toEqual(new Array(2).fill(expect.stringMatching(QUOTED_UUID)));
  });

  it("does not pass its own options to fetch", async () => {
    let handed: RequestInit | undefined;
    const fetch = createFetch({
      fetch: async (_, init) => {
        handed = init;
        return new Response();
      },
    });
    await fetch("/", { ...ORDER, idempotencyKey: "k", keepalive: true });
    expect(Object.keys(handed ?? {}).sort()).toEqual(["body", "headers", "keepalive", "method", "signal"]);
  });
});
