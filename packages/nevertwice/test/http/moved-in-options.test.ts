/** Tests the options that users of other libraries bring along: of options.ts, admission.ts, redaction.ts, kept-time.ts and http-option-checks.ts. */
import { describe, expect, it } from "vitest";
import { current } from "../../src/http/current-replay.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { DAY_MS, HOUR_MS, scene } from "./profile-scene.ts";
import { REPLAYED } from "./replayed-header.ts";

const KEY = { "idempotency-key": "8e03978e-40d5-43e8-bc93-6894a57f9324" };
const isReplay = (response: Response) => response.headers.get(REPLAYED) === "true";

describe("a key by a function", () => {
  it("is taken from the request instead of the header", async () => {
    const { send, runs } = scene({
      key: async (request) => request.headers.get("x-request-id") ?? undefined,
    });
    const headers = { "x-request-id": "a b, c" };
    expect(isReplay(await send({ headers }))).toBe(false);
    expect(isReplay(await send({ headers: { ...headers, ...KEY } }))).toBe(true);
    await send({ headers: KEY });
    await send({ headers: KEY });
    expect(runs()).toBe(3);
  });

  it("is missing if it is required and undefined, and invalid if it is not a string", async () => {
    const missing = scene({ required: true, key: () => undefined });
    expect(await (await missing.send()).json()).toMatchObject({ code: "key-missing", status: 400 });
    const invalid = scene({ key: () => 5 as never });
    expect(await (await invalid.send()).json()).toMatchObject({ code: "key-invalid", status: 400 });
    expect(missing.runs() + invalid.runs()).toBe(0);
  });

  it("contradicts keyField", () => {
    expect(() => scene({ key: () => "k", keyField: "id" })).toThrow("options-invalid: key and keyField");
  });
});

describe("a request that is skipped", () => {
  it("runs unprotected, although it has a key", async () => {
    const { send, runs } = scene({ skip: async (request) => request.headers.has("x-dry-run") });
    for (const _ of [1, 2]) await send({ headers: { ...KEY, "x-dry-run": "1" } });
    expect(runs()).toBe(2);
    for (const _ of [1, 2]) await send({ headers: KEY });
    expect(runs()).toBe(3);
  });
});

describe("a fingerprint", () => {
  /** The status of the second of two requests with one key. */
  async function second(options: object, a: object, b: object): Promise<number> {
    const { send } = scene(options);
    await send({ headers: KEY, ...a });
    return (await send({ ...b, headers: { ...KEY, ...(b as { headers?: object }).headers } })).status;
  }

  it("leaves out members of the body, at any depth", async () => {
    const options = { fingerprint: { without: ["sentAt", "meta.trace"] } };
    const body = { amount: 5, sentAt: 1, meta: { trace: "a", kind: "x" } };
    expect(
      await second(options, { body }, { body: { ...body, sentAt: 2, meta: { trace: "b", kind: "x" } } }),
    ).toBe(201);
    expect(await second(options, { body }, { body: { ...body, amount: 6 } })).toBe(422);
    expect(await second(options, { body }, { body: { ...body, meta: { trace: "a", kind: "y" } } })).toBe(422);
  });

  it("counts the path and the query unless it is told to leave them out", async () => {
    const named = { operation: "capture" };
    const [a, b] = [{ path: "/payments/1?try=1" }, { path: "/payments/2?try=1" }];
    expect(await second(named, a, b)).toBe(422);
    expect(await second({ ...named, fingerprint: { without: ["path"] } }, a, b)).toBe(201);
    expect(
      await second({ ...named, fingerprint: { without: ["path"] } }, a, { path: "/payments/1?try=2" }),
    ).toBe(422);
    expect(
      await second({ ...named, fingerprint: { without: ["query"] } }, a, { path: "/payments/1?try=2" }),
    ).toBe(201);
  });

  it("leaves out a member of the body that is called like the path", async () => {
    const options = { fingerprint: { without: ["body.path"] } };
    expect(await second(options, { body: { path: "/a" } }, { body: { path: "/b" } })).toBe(201);
    expect(
      await second(
        { fingerprint: { without: ["path"] } },
        { body: { path: "/a" } },
        { body: { path: "/b" } },
      ),
    ).toBe(422);
  });

  it("by a function sees headers and body, and replaces the body only", async () => {
    const fingerprint = async ({
      header,
      json,
    }: {
      header(name: string): string | undefined;
      json(): unknown;
    }) => ({
      version: header("X-Version"),
      amount: (json() as { amount: number }).amount,
    });
    const options = { operation: "pay", fingerprint };
    const first = { headers: { ...KEY, "x-version": "1" }, body: { amount: 5, note: "a" } };
    expect(
      await second(options, first, { headers: { "x-version": "1" }, body: { amount: 5, note: "b" } }),
    ).toBe(201);
    expect(
      await second(options, first, { headers: { "x-version": "2" }, body: { amount: 5, note: "a" } }),
    ).toBe(422);
    expect(await second(options, first, { headers: { "x-version": "1" }, body: { amount: 6 } })).toBe(422);
    expect(await second(options, first, { ...first, path: "/elsewhere" })).toBe(422);
    expect(
      await second({ ...options, fingerprint: { of: fingerprint, without: ["path"] } }, first, {
        ...first,
        path: "/elsewhere",
      }),
    ).toBe(201);
  });

  it("by a function that returns nothing is a mistake of the application", async () => {
    const { send, runs } = scene({ fingerprint: () => undefined });
    const { status } = await send({ headers: KEY });
    expect([status, runs()]).toEqual([500, 0]);
  });

  it.each([
    {},
    { without: [] },
    { without: ["a.*"] },
    { fields: ["a"], of: () => 1 },
    { of: "a" },
    { with: ["a"] },
  ])("cannot be %j", (fingerprint) => {
    expect(() => scene({ fingerprint: fingerprint as never })).toThrow("options-invalid: fingerprint");
  });
});

describe("the application's own form of a refusal", () => {
  it("replaces body and headers, and keeps status and Retry-After", async () => {
    const { send } = scene({
      refusal: ({ code, detail }, request: Request) => ({
        headers: { "X-Trace": request.headers.get("x-trace") ?? "", "Retry-After": "99" },
        body: { error: { code, message: detail } },
      }),
    });
    await send({ headers: KEY });
    const refused = await send({ headers: { ...KEY, "x-trace": "t1" }, body: { amount: 6 } });
    expect(refused.status).toBe(422);
    expect(refused.headers.get("content-type")).toBe("application/json");
    expect(refused.headers.get("x-trace")).toBe("t1");
    expect(refused.headers.get("retry-after")).toBeNull();
    expect(refused.headers.get("cache-control")).toBe("no-store");
    expect(await refused.json()).toMatchObject({ error: { code: "conflict" } });
  });

  it.each([
    ["returns nothing", () => undefined],
    [
      "throws",
      () => {
        throw new Error("broken");
      },
    ],
    ["returns a header that cannot be sent", () => ({ headers: { "x-a": "a\nb" } })],
  ])("is ours if the function %s", async (_, refusal) => {
    const { send } = scene({ required: true, refusal });
    expect(await (await send()).json()).toMatchObject({ code: "key-missing" });
  });
});

describe("what is stored", () => {
  async function stored(redact: (response: { readonly body: Uint8Array | undefined }) => unknown) {
    const { send, answers } = scene({ redact });
    answers(() => Response.json({ id: 1, pan: "4242" }, { status: 201, headers: { etag: '"v1"' } }));
    const first = await send({ headers: KEY });
    const replay = await send({ headers: KEY });
    return { first: await first.text(), replay, text: await replay.text() };
  }

  it("is redacted, while the first caller gets the whole response", async () => {
    const { first, replay, text } = await stored(({ body }) => ({
      ...JSON.parse(Buffer.from(body ?? "").toString()),
      pan: "****",
    }));
    expect(first).toBe('{"id":1,"pan":"4242"}');
    expect(text).toBe('{"id":1,"pan":"****"}');
    expect([replay.status, replay.headers.get("etag")]).toEqual([201, null]);
  });

  it.each([
    ["null", () => null],
    ["a promise", async () => "redacted"],
    [
      "an error",
      () => {
        throw new Error("broken");
      },
    ],
  ])("has no body if redact gives %s", async (_, redact) => {
    const { replay, text } = await stored(redact);
    expect([replay.status, JSON.parse(text)]).toMatchObject([409, { code: "already-done" }]);
  });

  it("is the response itself if redact returns undefined", async () => {
    expect((await stored(() => undefined)).text).toBe('{"id":1,"pan":"4242"}');
  });
});

/** Profiles whose clients send their key in the same header. */
const BY_HEADER = ["ietf", "stripe-v1", "stripe-v2", "acp", "ucp", "zalando"] as const;
const shouldRetry = ({ headers }: Response) =>
  headers.get("x-should-retry") ?? headers.get("stripe-should-retry");

describe("a response that was not kept", () => {
  it.each(BY_HEADER)("is refused by the profile %s, once and for all", async (profile) => {
    const { send, runs } = scene({ profile, keep: "marker" });
    await send({ headers: KEY });
    const duplicate = await send({ headers: KEY });
    expect([duplicate.status, runs()]).toEqual([409, 1]);
    expect(await duplicate.text()).toMatch(/already.done/i);
    expect(duplicate.headers.has("retry-after")).toBe(false);
    expect(shouldRetry(duplicate)).toBe("false");
  });

  it("is answered with its status where the route says so", async () => {
    const { send } = scene({ onNotKept: "status", keep: "marker" });
    await send({ headers: KEY });
    const duplicate = await send({ headers: KEY });
    expect([duplicate.status, await duplicate.text()]).toEqual([201, ""]);
    expect(duplicate.headers.get("nevertwice-outcome")).toBe("not-kept");
  });

  it.each(["ietf", "stripe-v1"] as const)(
    "and was a failure is the same failure with %s",
    async (profile) => {
      const { send, answers } = scene({ profile, keep: "marker" });
      answers(() => new Response("declined", { status: 402 }));
      await send({ headers: KEY });
      const duplicate = await send({ headers: KEY });
      expect([duplicate.status, shouldRetry(duplicate)]).toEqual([402, "false"]);
      expect(await duplicate.text()).toContain("answered with 402 before");
    },
  );

  it("and has no body by its status is whole without one", async () => {
    const { send, answers } = scene({ keep: "marker" });
    answers(() => new Response(null, { status: 204 }));
    await send({ headers: KEY });
    const duplicate = await send({ headers: KEY });
    expect([duplicate.status, isReplay(duplicate)]).toEqual([204, true]);
  });

  it("does not keep the application from answering with the current state", async () => {
    const replay = current<Request>(() => ({ status: 200, body: { state: "paid" } }));
    const { send } = scene({ keep: "marker", replay });
    await send({ headers: KEY });
    const duplicate = await send({ headers: KEY });
    expect([duplicate.status, await duplicate.json()]).toEqual([200, { state: "paid" }]);
  });

  it("is refused if the current state cannot be read, and the response is wanted instead", async () => {
    const fail = () => {
      throw new Error("the database is down");
    };
    const { send } = scene({ keep: "marker", replay: current<Request>(fail, { onError: "kept" }) });
    await send({ headers: KEY });
    expect(await (await send({ headers: KEY })).json()).toMatchObject({ code: "already-done" });
  });
});

describe("a retention that the handler chooses", () => {
  it("is that of this one response", async () => {
    const clock = manualClock();
    const { send, answers, runs } = scene({}, { store: memoryStore({ clock }) });
    answers((_, attempt) => {
      attempt?.keepFor(HOUR_MS);
      return new Response("done", { status: 201 });
    });
    await send({ headers: KEY });
    clock.advance(HOUR_MS - 1);
    await send({ headers: KEY });
    expect(runs()).toBe(1);
    clock.advance(1);
    await send({ headers: KEY });
    expect(runs()).toBe(2);
  });

  it.each([0, 1.5, -1, Number.NaN, 4e15])("cannot be %d", async (ms) => {
    const { send, answers } = scene({});
    answers((_, attempt) => {
      attempt?.keepFor(ms);
      return new Response("done");
    });
    await expect(send({ headers: KEY })).rejects.toThrow("options-invalid: keepFor(ms)");
  });

  it("keeps to what the profile allows, and to what a quota counts", async () => {
    for (const options of [{ profile: "acp" } as const, { quota: 10 }]) {
      const { send, answers } = scene(options);
      answers((_, attempt) => {
        attempt?.keepFor(options.profile === "acp" ? HOUR_MS : 2 * DAY_MS);
        return new Response("done");
      });
      await expect(send({ headers: KEY })).rejects.toThrow("options-invalid");
    }
  });
});

describe("methods", () => {
  it("are named in any case", async () => {
    const { send, runs } = scene({ methods: ["put", "Post"] });
    for (const method of ["PUT", "PUT", "POST", "POST"]) await send({ method, headers: KEY });
    expect(runs()).toBe(2);
    expect(() => scene({ methods: ["get"] })).toThrow("options-invalid: methods");
  });
});
