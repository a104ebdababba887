/** Tests keys that outlive the process: written before the first send, found after a crash, gone after a final answer. */
import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createFetch, type KeyStorage } from "../../src/client/index.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { deferred } from "../deferred.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { CREATED, eventually, problem, type Step, startServer } from "./server.ts";

const QUICK = { firstPauseMs: 1, maxPauseMs: 1 } as const;
const ORDER = { method: "POST", body: '{"sku":"a-1"}', idempotencyName: "order-17" } as const;
const CHANGED = { ...ORDER, body: '{"sku":"b-2"}' } as const;
const DAY_MS = 86_400_000;

async function fileStorage(): Promise<KeyStorage> {
  const folder = await scratchFolder();
  const fileOf = (name: string) => join(folder, encodeURIComponent(name));
  return {
    get: async (name) => (existsSync(fileOf(name)) ? readFile(fileOf(name), "utf8") : undefined),
    set: (name, value) => writeFile(fileOf(name), value),
    delete: (name) => rm(fileOf(name), { force: true }),
  };
}

function localStorageLike(): KeyStorage {
  const items = new Map<string, string>();
  return {
    get: (name) => items.get(`key of ${name}`) ?? null,
    set: (name, value) => void items.set(`key of ${name}`, value),
    delete: (name) => void items.delete(`key of ${name}`),
  };
}

const STORAGES: readonly (readonly [kind: string, open: () => KeyStorage | Promise<KeyStorage>])[] = [
  ["a Map", () => new Map<string, string>()],
  ["files", fileStorage],
  ["something like localStorage", localStorageLike],
];

describe.each(STORAGES)("a key kept in %s", (_, open) => {
  it("CL-12 is stored before the first send, and is the same after a crash", async () => {
    const storage = await open();
    const server = await startServer(CREATED);
    let storedWhenSent: unknown;
    // The process dies here: the request never leaves, and nothing after it runs.
    const crashed = new Promise<void>((sent) => {
      const fetch = createFetch({
        storage,
        fetch: async () => {
          storedWhenSent = await storage.get("order-17");
          sent();
          return new Promise(() => {});
        },
      });
      fetch(server.url, ORDER).catch(() => {});
    });
    await crashed;
    expect(storedWhenSent).toEqual(expect.stringContaining('"key"'));

    const response = await createFetch({ ...QUICK, storage })(server.url, ORDER);
    expect(response.status).toBe(201);
    expect(server.keys).toEqual([`"${JSON.parse(storedWhenSent as string).key}"`]);
  });

  it("CL-12 is the same after a lost answer and a restart, and another one after a final answer", async () => {
    const storage = await open();
    const server = await startServer("reset", "reset", CREATED, CREATED);
    const afterStart = () => createFetch({ ...QUICK, retries: 0, storage });
    await expect(afterStart()(server.url, ORDER)).rejects.toThrow(TypeError);
    await expect(afterStart()(server.url, ORDER)).rejects.toThrow(TypeError);
    expect(await (await afterStart()(server.url, ORDER)).text()).toBe("created");
    await afterStart()(server.url, ORDER);
    const [first, second, third, fourth] = server.keys;
    expect([second, third]).toEqual([first, first]);
    expect(fourth).not.toBe(first);
  });

  it("is shared by calls that start together, and differs for another name", async () => {
    const storage = await open();
    const server = await startServer(CREATED);
    const fetch = createFetch({ ...QUICK, storage });
    await Promise.all([1, 2, 3].map(() => fetch(server.url, ORDER)));
    await fetch(server.url, { ...ORDER, idempotencyName: "order-18" });
    expect(new Set(server.keys.slice(0, 3)).size).toBe(1);
    expect(server.keys[3]).not.toBe(server.keys[0]);
  });
});

describe("a kept key", () => {
  async function keysAfter(first: Step): Promise<readonly (string | undefined)[]> {
    const server = await startServer(first, CREATED);
    const fetch = createFetch({ ...QUICK, retries: 0, storage: new Map() });
    await fetch(server.url, ORDER).catch(() => {});
    await fetch(server.url, ORDER);
    return server.keys;
  }

  it.each([200, 201, 202, 204, 304, 400, 402, 404, 405, 410, 412, 413, 415, 422])(
    "ends with a %i, which will not change",
    async (status) => {
      const [first, second] = await keysAfter({ status });
      expect(second).not.toBe(first);
    },
  );

  it.each([401, 403, 408, 409, 425, 429, 500, 501, 502, 503, 504])("stays after a %i", async (status) => {
    const [first, second] = await keysAfter({ status });
    expect(second).toBe(first);
  });

  it("stays after an answer that breaks off", async () => {
    const [first, second] = await keysAfter("break");
    expect(second).toBe(first);
    const server = await startServer("break", CREATED);
    const fetch = createFetch({ ...QUICK, storage: new Map() });
    expect(await (await fetch(server.url, ORDER)).text()).toBe("created");
    expect(server.keys[1]).toBe(server.keys[0]);
  });

  it("stays after a conflict, since the outcome of the other request is unknown", async () => {
    const [first, second] = await keysAfter(problem(422, { code: "conflict", retryable: false }));
    expect(second).toBe(first);
  });

  it("stays after its caller cancels during a request", async () => {
    const server = await startServer("hang", CREATED);
    const fetch = createFetch({ ...QUICK, storage: new Map() });
    const controller = new AbortController();
    const answer = fetch(server.url, { ...ORDER, signal: controller.signal });
    await eventually(() => server.received.length).toBe(1);
    controller.abort();
    await expect(answer).rejects.toBe(controller.signal.reason);
    await fetch(server.url, ORDER);
    expect(server.keys[1]).toBe(server.keys[0]);
  });

  it.each<[string, Step]>([
    ["a lost answer", "reset"],
    ["a 500", { status: 500 }],
    ["a 409", { status: 409 }],
    ["a 408", { status: 408 }],
    ["a conflict", problem(422, { code: "conflict" })],
  ])("refuses another request after %s: the first may have been carried out", async (_, first) => {
    const server = await startServer(first, CREATED);
    const storage = new Map<string, string>();
    const fetch = createFetch({ ...QUICK, retries: 0, storage });
    await fetch(server.url, ORDER).catch(() => {});
    await expect(fetch(server.url, CHANGED)).rejects.toMatchObject({ code: "conflict" });
    await expect(fetch(`${server.url}/other`, ORDER)).rejects.toMatchObject({ code: "conflict" });
    await expect(fetch(server.url, { ...ORDER, method: "PATCH" })).rejects.toMatchObject({
      code: "conflict",
    });
    expect(server.received).toHaveLength(1);
    // A caller that knows the outcome deletes the key.
    storage.delete("order-17");
    await fetch(server.url, CHANGED);
    expect(server.keys[1]).not.toBe(server.keys[0]);
  });

  it.each([401, 403, 425, 429])(
    "gives way to another request after a %i: nothing was done",
    async (status) => {
      const server = await startServer({ status }, { status }, CREATED);
      const fetch = createFetch({ ...QUICK, retries: 0, storage: new Map() });
      await fetch(server.url, ORDER);
      await fetch(server.url, ORDER);
      await fetch(server.url, CHANGED);
      const [first, second, third] = server.keys;
      expect(second).toBe(first);
      expect(third).not.toBe(first);
    },
  );

  it.each<[string, readonly Step[], number]>([
    ["in the same call", ["reset", { status: 401 }], 1],
    ["in an earlier call", ["reset", { status: 401 }], 0],
  ])(
    "does not give way to it after a refusal if there was a lost answer before, %s",
    async (_, steps, retries) => {
      const server = await startServer(...steps, CREATED);
      const fetch = createFetch({ ...QUICK, retries, storage: new Map() });
      await fetch(server.url, ORDER).catch(() => {});
      if (retries === 0) await fetch(server.url, ORDER);
      await expect(fetch(server.url, CHANGED)).rejects.toMatchObject({ code: "conflict" });
    },
  );

  it("is not replaced while another call uses it", async () => {
    const server = await startServer("hang", { status: 401 }, CREATED);
    const fetch = createFetch({ ...QUICK, retries: 0, storage: new Map() });
    fetch(server.url, ORDER).catch(() => {});
    await eventually(() => server.received.length).toBe(1);
    await fetch(server.url, ORDER);
    await expect(fetch(server.url, CHANGED)).rejects.toMatchObject({ code: "conflict" });
  });

  it("is not replaced while a later call uses it", async () => {
    const answers: ((response: Response) => void)[] = [];
    const fetch = createFetch({
      storage: new Map(),
      retries: 0,
      fetch: () => new Promise((resolve) => void answers.push(resolve)),
    });
    const first = fetch("/", ORDER);
    const second = fetch("/", ORDER);
    await eventually(() => answers.length).toBe(2);
    answers[0]?.(new Response("", { status: 401 }));
    await first;
    await expect(fetch("/", CHANGED)).rejects.toMatchObject({ code: "conflict" });
    answers[1]?.(new Response("done"));
    await second;
  });

  it("can be replaced if its caller cancelled before anything was sent", async () => {
    const server = await startServer(CREATED);
    const controller = new AbortController();
    const map = new Map<string, string>();
    const storage: KeyStorage = {
      get: (name) => map.get(name),
      set: (name, value) => {
        map.set(name, value);
        controller.abort();
      },
      delete: (name) => map.delete(name),
    };
    const fetch = createFetch({ ...QUICK, storage });
    const { signal } = controller;
    await expect(fetch(server.url, { ...ORDER, signal })).rejects.toMatchObject({ name: "AbortError" });
    expect((await fetch(server.url, CHANGED)).status).toBe(201);
    expect(server.received).toHaveLength(1);
  });

  it("CL-11 is not sent past the window for which the server remembers it", async () => {
    const clock = manualClock();
    const server = await startServer("reset", "hang");
    const fetch = createFetch({ ...QUICK, retries: 0, storage: new Map(), clock });
    await fetch(server.url, ORDER).catch(() => {});
    clock.advance(DAY_MS);
    await expect(fetch(server.url, ORDER)).rejects.toMatchObject({ code: "unknown" });
    expect(server.received).toHaveLength(1);
    clock.advance(-1);
    // A millisecond is left of the window, and of the time to try.
    await expect(fetch(server.url, ORDER)).rejects.toMatchObject({ cause: { name: "TimeoutError" } });
  });

  it("is replaced after that window if nothing was done with it", async () => {
    const clock = manualClock();
    const server = await startServer({ status: 401 }, CREATED);
    const fetch = createFetch({ ...QUICK, storage: new Map(), clock });
    await fetch(server.url, ORDER);
    clock.advance(2 * DAY_MS);
    expect((await fetch(server.url, ORDER)).status).toBe(201);
  });

  it("is not removed by an old call after a new call has created its own", async () => {
    const server = await startServer("hang");
    const storage = new Map<string, string>();
    const { promise: late, resolve: answerOld } = deferred<Response>();
    const old = createFetch({ storage, fetch: () => late })("/", ORDER);
    await eventually(() => storage.has("order-17")).toBe(true);
    storage.delete("order-17");
    const fetch = createFetch({ ...QUICK, retries: 0, storage, timeoutMs: 50 });
    await fetch(`${server.url}/`, ORDER).catch(() => {});
    const stored = storage.get("order-17");
    answerOld(new Response("late"));
    await old;
    expect(storage.get("order-17")).toBe(stored);
  });

  it("that cannot be sent is not stored", async () => {
    const storage = new Map<string, string>();
    const fetch = createFetch({ storage, newKey: () => "é" });
    await expect(fetch("http://localhost/", ORDER)).rejects.toMatchObject({ code: "key-invalid" });
    expect(storage.size).toBe(0);
  });

  it("that cannot be stored is not sent; one that cannot be removed fails no call", async () => {
    const server = await startServer(CREATED);
    const full = { get: () => null, set: () => Promise.reject(new Error("quota")), delete: () => {} };
    await expect(createFetch({ storage: full })(server.url, ORDER)).rejects.toThrow("quota");
    expect(server.received).toHaveLength(0);
    const kept = new Map<string, string>();
    const stuck: KeyStorage = {
      get: (name) => kept.get(name),
      set: (name, value) => kept.set(name, value),
      delete: () => Promise.reject(new Error("stuck")),
    };
    expect((await createFetch({ storage: stuck })(server.url, ORDER)).status).toBe(201);
  });

  it.each(["", "order-17-key", "{}", '{"key":7}', "null"])(
    "that is not a kept key is refused: %j",
    async (text) => {
      const fetch = createFetch({ storage: new Map([["order-17", text]]) });
      await expect(fetch("http://localhost/", ORDER)).rejects.toMatchObject({ code: "unknown" });
    },
  );

  it("needs a storage, a non-empty name, and no other key", async () => {
    const failure = { code: "options-invalid" };
    await expect(createFetch()("/", ORDER)).rejects.toMatchObject(failure);
    const fetch = createFetch({ storage: new Map() });
    await expect(fetch("/", { ...ORDER, idempotencyName: "" })).rejects.toMatchObject(failure);
    await expect(fetch("/", { ...ORDER, idempotencyKey: "k" })).rejects.toMatchObject(failure);
    const headers = { "idempotency-key": "k" };
    await expect(fetch("/", { ...ORDER, headers })).rejects.toMatchObject(failure);
    await expect(fetch("/", { ...ORDER, mode: "no-cors" })).rejects.toMatchObject(failure);
  });

  it("can be used with a stream, which is sent once and not compared", async () => {
    const server = await startServer("reset", CREATED);
    const fetch = createFetch({ ...QUICK, storage: new Map() });
    const send = () =>
      fetch(server.url, {
        method: "POST",
        body: new Blob(["from a file"]).stream(),
        duplex: "half",
        idempotencyName: "upload",
      });
    await expect(send()).rejects.toMatchObject({ tries: 1 });
    await send();
    expect(server.keys[1]).toBe(server.keys[0]);
  });
});
