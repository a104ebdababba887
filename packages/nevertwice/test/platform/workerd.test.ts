/**
 * Tests Workers in workerd itself, with guards at module level. workerd refuses or hangs a request that touches a timer, a
 * connection or a promise of another request, and ends what a request has started soon after its response. Needs the build.
 */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { bundleForEdge } from "../../../../scripts/smoke/edge-bundle.js";
import { STRICT, type StartedWorker, startWorker } from "./workerd.ts";

/** `expect.poll` does not know to which of several concurrent tests it belongs. */
async function until(read: () => Promise<unknown>, expected: unknown): Promise<void> {
  await vi.waitFor(async () => expect(await read()).toBe(expected), { timeout: 30_000, interval: 50 });
}

const PROGRAM = fileURLToPath(new URL("worker/worker.ts", import.meta.url));
const DOORS = ["/memory/fetch", "/memory/hono", "/object/fetch", "/object/hono"];

// At once, so that the requests of all of them overlap.
describe.concurrent.each([
  { name: "without nodejs_compat", flags: [STRICT] },
  { name: "with nodejs_compat", flags: [STRICT, "nodejs_compat"] },
])("$name", ({ flags }) => {
  let worker: StartedWorker;
  let keys = 0;
  const newKey = () => `order-${++keys}`;

  beforeAll(async () => {
    const { code } = await bundleForEdge(PROGRAM, "workerd");
    worker = await startWorker(code, flags);
  });

  afterAll(async () => {
    await worker?.close();
    expect(worker?.log()).toBe("");
  });

  test.each(DOORS)("%s answers first, replays, and refuses another request with the key", async (door) => {
    const key = newKey();
    const first = await worker.post(door, key, { amount: 5 });
    expect(first).toEqual({ status: 201, body: { run: 1, amount: 5 }, replayed: false });
    expect(await worker.post(door, key, { amount: 5 })).toEqual({ ...first, replayed: true });
    expect(await worker.post(door, key, { amount: 6 })).toMatchObject({ status: 422 });
    expect(await worker.ask("/runs", { key })).toBe(1);
  });

  test.each(DOORS)("%s runs overlapping duplicates once, while other keys run beside them", async (door) => {
    const key = newKey();
    const others = Array.from({ length: 6 }, newKey);
    const answers = await Promise.all([
      ...Array.from({ length: 6 }, () => worker.post(door, key, { ms: 400 })),
      // The first to arrive is the first to end: what others share with it would end then.
      ...others.map((other, index) => worker.post(door, other, { ms: 100 * index })),
    ]);
    for (const { status, body } of answers)
      expect({ status, body }).toEqual({ status: 201, body: { run: 1 } });
    expect(answers.slice(0, 6).filter(({ replayed }) => !replayed)).toHaveLength(1);
  });

  test.each(DOORS)("%s renews the lease while the handler runs", async (door) => {
    const key = newKey();
    const send = () => worker.post(door, key, { ms: 2_500 });
    for (const { body } of await Promise.all([send(), send()])) expect(body).toEqual({ run: 1 });
  });

  const stateOf = (path: string, key: string) => worker.ask("/state", { path, key });
  const object = (name: string, step: string, ...args: unknown[]) =>
    worker.ask("/object", { name, step }, args);

  describe("a store that fails when the record is to be completed", () => {
    /** So many that the pauses between them last longer than the request. */
    const FAILURES = 6;

    test.each(["/hasty/fetch", "/hasty/hono", "/carried/fetch"])(
      "%s responds, and completes the record after the response",
      async (door) => {
        const key = newKey();
        await object(door, "trouble", { step: "complete", failures: FAILURES });
        expect(await worker.post(door, key)).toEqual({ status: 201, body: { run: 1 }, replayed: false });
        await until(() => stateOf(door, key), "completed");
        expect(await worker.post(door, key)).toEqual({ status: 201, body: { run: 1 }, replayed: true });
      },
    );

    test("without waitUntil, the runtime ends the repeats, and the record lapses", async () => {
      const key = newKey();
      await object("/uncarried/fetch", "trouble", { step: "complete", failures: FAILURES });
      expect(await worker.post("/uncarried/fetch", key)).toMatchObject({ status: 201 });
      await until(() => stateOf("/uncarried/fetch", key), "lapsed");
    });
  });

  describe("a client that leaves while the handler runs", () => {
    async function leave(path: string, key: string) {
      const reset = worker.postAndLeave(path, key, { ms: 1_500 });
      await until(() => worker.ask("/runs", { key }), 1);
      reset();
    }

    test("changes nothing: the handler ends and its response is replayed", async () => {
      const key = newKey();
      await leave("/carried/fetch", key);
      await until(() => stateOf("/carried/fetch", key), "completed");
      expect(await worker.post("/carried/fetch", key, { ms: 1_500 })).toEqual({
        status: 201,
        body: { run: 1 },
        replayed: true,
      });
    });

    test("changes nothing for a webhook either", async () => {
      await leave("/hook", newKey());
      const states = async () => {
        const { records } = (await object("/hook", "list", { namespace: "default", limit: 10 })) as {
          readonly records: readonly { readonly state: string }[];
        };
        return records.map(({ state }) => state).join();
      };
      await until(states, "completed");
    });

    test("without waitUntil, the runtime ends the handler, and the record lapses", async () => {
      const key = newKey();
      await leave("/uncarried/fetch", key);
      await until(() => stateOf("/uncarried/fetch", key), "lapsed");
    });
  });

  test("a duplicate that leaves while it waits makes room for the next one", async () => {
    const name = "/crowded/fetch";
    const key = newKey();
    const reads = async () => ((await object(name, "counts")) as { read?: number }).read ?? 0;
    const endFirst = worker.postAndLeave(name, key, { ms: 60_000 });
    await until(() => worker.ask("/runs", { key }), 1);
    const leave = worker.postAndLeave(name, key, { ms: 60_000 });
    await until(async () => (await reads()) > 0, true);
    leave();
    // A duplicate that waits reads the record. One that finds no room is refused at once, and reads nothing.
    await until(async () => {
      const before = await reads();
      expect(await worker.post(name, key, { ms: 60_000 })).toMatchObject({ status: 409 });
      return (await reads()) > before;
    }, true);
    endFirst();
  });

  test("no request purges, and a cron removes the records that have expired", async () => {
    const name = "/brief/fetch";
    for (let orders = 0; orders < 3; orders++) await worker.post(name, newKey(), { ms: 100 });
    const list = () => object(name, "list", { namespace: "default", limit: 10 });
    expect(await object(name, "counts")).not.toHaveProperty("purge");
    expect(await worker.scheduled()).toMatchObject({ outcome: "ok" });
    expect(await object(name, "counts")).toMatchObject({ purge: 1 });
    expect(await list()).toEqual({ records: [] });
  });
});
