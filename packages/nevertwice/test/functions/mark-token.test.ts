/** Tests that a caller whose mark lost its answer can repeat it, and still learns that it was first. */
import { describe, expect, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";

describe("a mark with the caller's own token", () => {
  const subject = { operation: "report", key: "2024-05" };
  const token = "a token that nobody guesses";
  const other = { ...subject, token: "a token of another caller" };

  test("returns true again when repeated, also by another guard, and false for every other caller", async () => {
    const store = memoryStore();
    const [one, two] = [createGuard({ store }), createGuard({ store })];
    expect(await one.mark({ ...subject, token })).toBe(true);
    expect(await two.mark({ ...subject, token })).toBe(true);
    expect(await two.mark(other)).toBe(false);
    expect(await two.mark(subject)).toBe(false);
    expect(await one.mark({ ...subject, token })).toBe(true);
  });

  test("continues its claim if its process died before the mark was written, and does not wait for the lease", async () => {
    const store = memoryStore();
    const faulty = faultyStore(store);
    const dying = createGuard({ store: faulty, storeTimeoutMs: 20, drainMs: 0 });
    for (let i = 0; i < 100; i++) faulty.plan("complete", "refuse");
    await expect(dying.mark({ ...subject, token })).rejects.toMatchObject({ code: "unavailable" });
    await dying.close();
    expect(await createGuard({ store, waitMs: 0 }).mark({ ...subject, token })).toBe(true);
  });

  test("is not given up by the guard when the store does not answer: only its caller may do that", async () => {
    const store = faultyStore(memoryStore());
    const guard = createGuard({ store, storeTimeoutMs: 20 });
    for (let i = 0; i < 3; i++) store.plan("claim", "break-reply");
    await expect(guard.mark({ ...subject, token })).rejects.toMatchObject({ code: "unavailable" });
    await guard.close();
    expect(store.calls.abandon).toBe(0);
    const next = createGuard({ store, waitMs: 0 });
    await expect(next.mark(other)).rejects.toMatchObject({ code: "pending" });
    expect(await next.mark({ ...subject, token })).toBe(true);
  });

  test("throws token-spent after the mark was released, and does not wait first", async () => {
    const guard = createGuard({ store: memoryStore(), waitMs: 3_600_000 });
    await guard.mark({ ...subject, token });
    await guard.release(subject);
    await expect(guard.mark({ ...subject, token })).rejects.toMatchObject({
      code: "token-spent",
      status: 409,
    });
    expect(await guard.mark(other)).toBe(true);
  });

  test("throws unavailable if the store does not answer which caller made the mark", async () => {
    const store = faultyStore(memoryStore());
    const guard = createGuard({ store, storeTimeoutMs: 1_000 });
    await guard.mark({ ...subject, token });
    store.plan("read", "refuse");
    await expect(guard.mark({ ...subject, token })).rejects.toMatchObject({ code: "unavailable" });
  });

  test("needs a token that cannot be guessed", async () => {
    const guard = createGuard({ store: memoryStore() });
    await expect(guard.mark({ ...subject, token: "short" })).rejects.toThrow("token has 5 characters");
  });
});
