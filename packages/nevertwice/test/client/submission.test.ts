/** One key for one submission of a form, however often it is clicked. */
import { describe, expect, it } from "vitest";
import { createFetch, createSubmission } from "../../src/client/index.ts";
import { CREATED, eventually, type Step, startServer } from "./server.ts";

const QUICK = createFetch({ firstPauseMs: 1, maxPauseMs: 1 });
const ONCE = createFetch({ retries: 0 });
const ORDER = { method: "POST", body: '{"sku":"a-1"}' } as const;
const CHANGED = { method: "POST", body: '{"sku":"b-2"}' } as const;

function form(sku: string): RequestInit {
  const body = new FormData();
  body.append("sku", sku);
  body.append("photo", new Blob(["pixels"], { type: "image/png" }));
  return { method: "POST", body };
}

describe("a submission", () => {
  it("has one key over clicks and retries until it succeeds, and then a new one", async () => {
    const server = await startServer("reset", { status: 503 }, { status: 500 }, CREATED, CREATED);
    const submission = createSubmission({ fetch: ONCE });
    await expect(submission.send(server.url, ORDER)).rejects.toThrow(TypeError);
    await submission.send(server.url, ORDER);
    await submission.send(server.url, ORDER);
    const done = await submission.send(server.url, ORDER);
    expect(await done.text()).toBe("created");
    await submission.send(server.url, ORDER);
    const [first, ...others] = server.keys;
    expect(others.slice(0, 3)).toEqual([first, first, first]);
    expect(others[3]).not.toBe(first);
  });

  it("shares one request among clicks while it runs, and each gets the whole answer", async () => {
    const server = await startServer({ status: 503 }, CREATED);
    const submission = createSubmission({ fetch: QUICK });
    const answers = await Promise.all([1, 2, 3, 4].map(() => submission.send(server.url, ORDER)));
    expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual(new Array(4).fill("created"));
    expect(server.received).toHaveLength(2);
    expect(server.keys[1]).toBe(server.keys[0]);
  });

  it("throws the same error to all of them", async () => {
    const server = await startServer("reset");
    const submission = createSubmission({ fetch: ONCE });
    const clicks = [1, 2].map(() => submission.send(server.url, ORDER).catch((error: unknown) => error));
    const [first, second] = await Promise.all(clicks);
    expect(first).toMatchObject({ tries: 1, hasKey: true });
    expect(second).toBe(first);
    expect(server.received).toHaveLength(1);
  });

  it("compares a form by its content, and sends the same bytes", async () => {
    const server = await startServer("reset", CREATED);
    const submission = createSubmission({ fetch: ONCE });
    await expect(submission.send(server.url, form("a-1"))).rejects.toThrow(TypeError);
    await expect(submission.send(server.url, form("b-2"))).rejects.toMatchObject({ code: "conflict" });
    await submission.send(server.url, form("a-1"));
    expect(server.received).toHaveLength(2);
    expect(server.received[1]?.body).toEqual(server.received[0]?.body);
    expect(server.received[1]?.headers["content-type"]).toBe(server.received[0]?.headers["content-type"]);
  });

  it("refuses other content while a request is under way", async () => {
    const server = await startServer("hang");
    const submission = createSubmission({ fetch: ONCE });
    submission.send(server.url, ORDER).catch(() => {});
    await eventually(() => server.received.length).toBe(1);
    await expect(submission.send(server.url, CHANGED)).rejects.toMatchObject({ code: "conflict" });
    expect(server.received).toHaveLength(1);
  });

  it.each<[string, Step]>([
    ["a lost answer", "reset"],
    ["half an answer", "break"],
    ["a 500", { status: 500 }],
    ["a 409", { status: 409, headers: { "retry-after": "1" } }],
  ])("refuses other content after %s, until it is reset", async (_, first) => {
    const server = await startServer(first, CREATED);
    const submission = createSubmission({ fetch: ONCE });
    await submission.send(server.url, ORDER).catch(() => {});
    expect(submission.status).toBe("unknown");
    await expect(submission.send(server.url, CHANGED)).rejects.toMatchObject({ code: "conflict" });
    expect(submission.status).toBe("unknown");
    await submission.reset();
    expect([submission.status, submission.key]).toEqual(["ready", undefined]);
    expect((await submission.send(server.url, CHANGED)).status).toBe(201);
    expect(server.keys).toHaveLength(2);
    expect(server.keys[1]).not.toBe(server.keys[0]);
  });

  /** The keys of the same content twice, each answered with this status, and then of other content. */
  async function keysAfter(status: number) {
    const server = await startServer({ status }, { status }, CREATED);
    const submission = createSubmission({ fetch: ONCE });
    await submission.send(server.url, ORDER);
    expect(submission.status).toBe("ready");
    await submission.send(server.url, ORDER);
    await submission.send(server.url, CHANGED);
    return server.keys;
  }

  it.each([400, 402, 404, 422])(
    "takes other content, and the same, under a new key after a %i",
    async (status) => {
      expect(new Set(await keysAfter(status)).size).toBe(3);
    },
  );

  it.each([401, 403, 429])(
    "keeps its key after a %i for the same content, and lets it be edited",
    async (status) => {
      const [first, second, third] = await keysAfter(status);
      expect(second).toBe(first);
      expect(third).not.toBe(first);
    },
  );

  it("shows its key and its status", async () => {
    const server = await startServer("reset", "hang");
    const submission = createSubmission({ fetch: ONCE });
    expect([submission.key, submission.status]).toEqual([undefined, "ready"]);
    await submission.send(server.url, ORDER).catch(() => {});
    expect([`"${submission.key}"`, submission.status]).toEqual([server.keys[0], "unknown"]);
    const controller = new AbortController();
    const answer = submission.send(server.url, { ...ORDER, signal: controller.signal });
    await eventually(() => server.received.length).toBe(2);
    expect([`"${submission.key}"`, submission.status]).toEqual([server.keys[0], "sending"]);
    controller.abort();
    await expect(answer).rejects.toBe(controller.signal.reason);
    expect([`"${submission.key}"`, submission.status]).toEqual([server.keys[0], "unknown"]);
  });

  it("continues when one of two callers cancels, and stops when the last one does", async () => {
    const server = await startServer("hang", CREATED);
    const signals: AbortSignal[] = [];
    const watched: typeof fetch = (input, init) => {
      signals.push(init?.signal as AbortSignal);
      return fetch(input, init);
    };
    const submission = createSubmission({ fetch: createFetch({ retries: 0, fetch: watched }) });
    const [first, second] = [new AbortController(), new AbortController()];
    const answers = [first, second].map(({ signal }) => submission.send(server.url, { ...ORDER, signal }));
    const settled = Promise.allSettled(answers);
    await eventually(() => server.received.length).toBe(1);
    first.abort();
    await expect(answers[0]).rejects.toBe(first.signal.reason);
    expect(submission.status).toBe("sending");
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    second.abort();
    await settled;
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(submission.status).toBe("unknown");
    // A later caller does not get the error that ended the others.
    expect((await submission.send(server.url, ORDER)).status).toBe(201);
    expect(server.keys[1]).toBe(server.keys[0]);
  });

  it("that was reset is not changed by its old answer", async () => {
    let answerOld: (response: Response) => void = () => {};
    const server = await startServer("reset");
    const answers = [
      () =>
        new Promise<Response>((resolve) => {
          answerOld = resolve;
        }),
      () => fetch(server.url),
    ];
    const submission = createSubmission({
      fetch: createFetch({ retries: 0, fetch: () => (answers.shift() as () => Promise<Response>)() }),
    });
    const old = submission.send("/", ORDER);
    await eventually(() => submission.key).toBeDefined();
    const oldKey = submission.key;
    await submission.reset();
    await expect(submission.send("/", CHANGED)).rejects.toThrow(TypeError);
    const newKey = submission.key;
    expect(newKey).not.toBe(oldKey);
    answerOld(new Response("late"));
    expect(await (await old).text()).toBe("late");
    expect([submission.key, submission.status]).toEqual([newKey, "unknown"]);
  });

  it("survives a reload of the page: the same content has the same key, other content is refused", async () => {
    const server = await startServer("reset", CREATED, CREATED);
    const storage = new Map<string, string>();
    const onLoad = () => createSubmission({ fetch: ONCE, storage, name: "checkout" });
    await onLoad()
      .send(server.url, ORDER)
      .catch(() => {});
    const reloaded = onLoad();
    await expect(reloaded.send(server.url, CHANGED)).rejects.toMatchObject({ code: "conflict" });
    expect([`"${reloaded.key}"`, reloaded.status]).toEqual([server.keys[0], "unknown"]);
    await onLoad().send(server.url, ORDER);
    await onLoad().send(server.url, CHANGED);
    const [first, second, third] = server.keys;
    expect(second).toBe(first);
    expect(third).not.toBe(first);
    expect(storage.size).toBe(0);
  });

  it("retries with a plain fetch or none, and uses the options of a fetch from createFetch", async () => {
    const server = await startServer({ status: 503 }, CREATED);
    const response = await createSubmission({ fetch: globalThis.fetch }).send(server.url, ORDER);
    expect(response.status).toBe(201);
    expect(server.keys).toEqual([server.keys[0], server.keys[0]]);
    expect((await createSubmission().send(server.url, ORDER)).status).toBe(201);
    const refusing = await startServer({ status: 503 }, CREATED);
    expect((await createSubmission({ fetch: ONCE }).send(refusing.url, ORDER)).status).toBe(503);
  });

  it("writes its key in the format of its fetch", async () => {
    const server = await startServer(CREATED);
    const fetch = createFetch({ header: "X-Request-Id", format: "bare", newKey: () => "made-here" });
    await createSubmission({ fetch }).send(new Request(server.url, ORDER));
    expect(server.received[0]?.headers["x-request-id"]).toBe("made-here");
    expect(server.received[0]?.body.toString()).toBe(ORDER.body);
  });

  it("refuses a body that cannot be sent twice, and a key of the caller", async () => {
    const submission = createSubmission();
    const failure = { code: "options-invalid" };
    const body = new Blob(["x"]).stream();
    const streamed = submission.send("http://localhost/", { method: "POST", body, duplex: "half" });
    await expect(streamed).rejects.toMatchObject(failure);
    const keyed = { ...ORDER, idempotencyKey: "k" };
    await expect(submission.send("http://localhost/", keyed)).rejects.toMatchObject(failure);
    const headers = { "Idempotency-Key": "k" };
    await expect(submission.send("http://localhost/", { ...ORDER, headers })).rejects.toMatchObject(failure);
    expect(submission.status).toBe("ready");
  });

  it("refuses unknown options, and storage or name alone", () => {
    const failure = expect.objectContaining({ code: "options-invalid" });
    expect(() => createSubmission({ keys: 1 } as object)).toThrow(failure);
    expect(() => createSubmission({ storage: new Map() })).toThrow(failure);
    expect(() => createSubmission({ name: "checkout" })).toThrow(failure);
  });
});
