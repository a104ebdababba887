/** Tests dead letters: what is kept of an operation that failed, and how it is retried without running twice. */
import { ConstantBackoff, handleAll, retry, TimeoutStrategy, timeout } from "cockatiel";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { compositeKey } from "../../src/core/key.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { type DeadLetter, protect, replay, tryProtect } from "../../src/functions/protect.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { deferred } from "../deferred.ts";
import { failure } from "./protect-scene.ts";

const retries = (maxAttempts: number) => retry(handleAll, { maxAttempts, backoff: new ConstantBackoff(0) });

let store: ReturnType<typeof memoryStore>;
let guard: Guard;
let letters: DeadLetter[];
beforeEach(() => {
  store = memoryStore();
  guard = createGuard({ store, purgeEveryMs: 0 });
  letters = [];
});
afterEach(async () => {
  vi.useRealTimers();
  await guard.close();
});

const deadLetters = (entry: DeadLetter) => void letters.push(entry);
const charge = () =>
  ({ operation: "charge", key: "id", context: { id: "42", amount: 7 }, deadLetters }) as const;
const SUBJECT = { operation: "charge", key: "42" };

function down(): never {
  throw Object.assign(new Error("down"), { code: "E_DOWN" });
}

/** An entry as it comes back from storage. */
async function failedEntry(options: object = {}): Promise<DeadLetter> {
  await tryProtect(guard, { ...charge(), ...options }, down);
  return JSON.parse(JSON.stringify(letters.at(-1)));
}

describe("a dead letter", () => {
  test("describes the failure as plain JSON", async () => {
    const options = {
      ...charge(),
      domain: "billing",
      scope: "tenant",
      fingerprint: { amount: 7 },
      args: [1n, new Date(0)],
      policy: retries(2),
    };
    const answer = await tryProtect(guard, options, down);
    const entry = {
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      operation: "charge",
      domain: "billing",
      scope: "tenant",
      key: "42",
      fingerprint: { amount: 7 },
      error: { name: "Error", message: "down", code: "E_DOWN" },
      attempts: 3,
      failedAt: expect.any(Number),
      replays: 0,
      context: { id: "42", amount: 7 },
      args: ["1", "1970-01-01T00:00:00.000Z"],
    };
    expect(letters).toEqual([entry]);
    expect(JSON.parse(JSON.stringify(letters[0]))).toEqual(letters[0]);
    expect(answer).toMatchObject({ outcome: "failed", entry: letters[0], isEntryKept: true });
  });

  test("is written when a fallback answers, and when the policy never ran the work", async () => {
    await protect(guard, { ...charge(), fallback: () => "queued" }, down);
    const policy = { execute: (): Promise<never> => Promise.reject(new Error("open")) };
    await tryProtect(guard, { ...charge(), policy }, down);
    expect(letters).toMatchObject([
      { attempts: 1, error: { message: "down" } },
      { attempts: 0, error: { message: "open" } },
    ]);
  });

  test("is not written for a refused or replayed call", async () => {
    await protect(guard, { ...charge(), onFailure: "remember" }, down).catch(() => {});
    expect(letters).toHaveLength(1);
    await expect(protect(guard, charge(), () => "not run")).rejects.toThrow("down");
    await guard.run({ operation: "charge", key: "43", fingerprint: 1 }, () => "done");
    const other = { ...charge(), context: { id: "43" } };
    await expect(protect(guard, { ...other, fingerprint: 2 }, down)).rejects.toEqual(failure("conflict"));
    expect(await protect(guard, other, down)).toBe("done");
    expect(letters).toHaveLength(1);
  });

  test.each<[what: string, take: () => unknown]>([
    ["throws", down],
    ["rejects", async () => down()],
  ])("breaks nothing if its sink %s", async (_, take) => {
    const answer = await tryProtect(guard, { ...charge(), deadLetters: take }, down);
    expect(answer).toMatchObject({ outcome: "failed", isEntryKept: false, entry: { key: "42" } });
  });

  test("is waited for, but not for ever", async () => {
    const taken = deferred<void>();
    let isAnswered = false;
    const call = tryProtect(guard, { ...charge(), deadLetters: () => taken.promise }, down);
    void call.then(() => {
      isAnswered = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(isAnswered).toBe(false);
    taken.resolve();
    expect(await call).toMatchObject({ isEntryKept: true });
    vi.useFakeTimers();
    const never = tryProtect(guard, { ...charge(), deadLetters: () => new Promise(() => {}) }, down);
    await vi.advanceTimersByTimeAsync(6_000);
    expect(await never).toMatchObject({ outcome: "failed", isEntryKept: false });
  });

  test("leaves out a context that JSON cannot represent, and describes any thrown value", async () => {
    const context: { id: string; self?: unknown } = { id: "42" };
    context.self = context;
    const unreadable = Object.defineProperty(new Error("?"), "message", { get: down });
    for (const thrown of [unreadable, undefined, "text", Symbol("s"), { reason: 1 }, Object.create(null)]) {
      await tryProtect(guard, { ...charge(), context }, () => {
        throw thrown;
      });
    }
    expect(letters.map(({ error }) => error)).toEqual([
      { name: "Error", message: "an error that cannot be read" },
      { name: "undefined", message: "undefined" },
      { name: "string", message: "text" },
      { name: "symbol", message: "Symbol(s)" },
      { name: "object", message: '{"reason":1}' },
      { name: "object", message: "{}" },
    ]);
    expect(letters.every((entry) => !("context" in entry))).toBe(true);
  });

  test("is written even if its caller has cancelled", async () => {
    const controller = new AbortController();
    const held = deferred<never>();
    const begun = deferred<void>();
    const call = protect(guard, { ...charge(), signal: controller.signal }, () => {
      begun.resolve();
      return held.promise;
    });
    await begun.promise;
    controller.abort(new Error("gone"));
    await expect(call).rejects.toThrow("gone");
    expect(letters).toHaveLength(0);
    held.reject(new Error("down"));
    await vi.waitFor(() => expect(letters).toMatchObject([{ key: "42", error: { message: "down" } }]));
  });
});

describe("a replay", () => {
  test("runs the operation under its own identity, once, and completes it for every caller", async () => {
    const entry = await failedEntry({ scope: "tenant", domain: "billing", fingerprint: { amount: 7 } });
    let runs = 0;
    const work = () => `receipt ${++runs}`;
    expect(await replay(guard, entry, work)).toMatchObject({ outcome: "ran", value: "receipt 1" });
    expect(await replay(guard, entry, work)).toMatchObject({ outcome: "replayed", value: "receipt 1" });
    const original = { ...charge(), scope: "tenant", domain: "billing", fingerprint: { amount: 7 } };
    expect(await protect(guard, original, work)).toBe("receipt 1");
    await expect(protect(guard, { ...original, fingerprint: { amount: 8 } }, work)).rejects.toEqual(
      failure("conflict"),
    );
  });

  test("keeps a fingerprint of bytes, and one that the work mutates", async () => {
    const bytes = new Uint8Array([1, 2, 255]);
    const entry = await failedEntry({ fingerprint: bytes });
    await replay(guard, entry, () => "receipt");
    expect(await protect(guard, { ...charge(), fingerprint: bytes }, down)).toBe("receipt");
    const meaning = { amount: 7 };
    const other = { ...charge(), context: { id: "43" }, fingerprint: meaning };
    await tryProtect(guard, other, () => {
      meaning.amount = 8;
      return down();
    });
    expect(letters.at(-1)?.fingerprint).toEqual({ amount: 7 });
  });

  test("on two guards at once runs the work once", async () => {
    const entry = await failedEntry();
    const another = createGuard({ store, purgeEveryMs: 0 });
    const held = deferred<string>();
    let runs = 0;
    const work = () => {
      runs++;
      return held.promise;
    };
    const both = Promise.all([replay(guard, entry, work), replay(another, entry, work)]);
    await vi.waitFor(() => expect(runs).toBe(1));
    const third = await replay(guard, entry, work, { onPending: "reject" });
    expect(third).toMatchObject({ outcome: "refused", status: "pending" });
    held.resolve("receipt");
    const answers = await both;
    expect(answers.map(({ outcome }) => outcome).sort()).toEqual(["ran", "replayed"]);
    expect(answers).toMatchObject([{ value: "receipt" }, { value: "receipt" }]);
    expect(runs).toBe(1);
    await another.close();
  });

  test("that fails is used up: a second replay gets the same failure and the entry for the next try", async () => {
    const entry = await failedEntry();
    let runs = 0;
    const work = () => {
      runs++;
      return down();
    };
    const first = await replay(guard, entry, work, { policy: retries(1), deadLetters });
    const next = { id: entry.id, replays: 1, attempts: 2, key: "42", context: { id: "42", amount: 7 } };
    expect(first).toMatchObject({ outcome: "failed", isReplayed: false, entry: next, isEntryKept: true });
    expect(letters.at(-1)).toMatchObject(next);
    expect(await replay(guard, entry, work)).toMatchObject({
      outcome: "failed",
      isReplayed: true,
      entry: next,
    });
    expect(runs).toBe(2);
    const again = letters.at(-1) as DeadLetter;
    expect(await replay(guard, again, () => "receipt")).toMatchObject({ outcome: "ran", value: "receipt" });
  });

  test("that failed with a value that cannot be stored still returns its next entry", async () => {
    const entry = await failedEntry();
    const odd = Object.assign(() => {}, { reason: "odd" });
    await replay(guard, entry, () => {
      throw odd;
    });
    expect(await replay(guard, entry, () => "not run")).toMatchObject({
      outcome: "failed",
      entry: { replays: 1 },
    });
  });

  test("of work that was done in the meantime returns its outcome", async () => {
    const entry = await failedEntry();
    await protect(guard, charge(), () => "receipt");
    const strict = guard.with({ onCompleted: "reject" });
    expect(await replay(strict, entry, down)).toMatchObject({ outcome: "replayed", value: "receipt" });
    // A second replay of the same entry gets it too.
    expect(await replay(strict, entry, down)).toMatchObject({ outcome: "replayed", value: "receipt" });
  });

  test("of work that is still in progress returns pending, and does not use up the entry", async () => {
    const late = deferred<string>();
    const options = { ...charge(), policy: timeout(10, TimeoutStrategy.Aggressive) };
    await tryProtect(guard, options, () => late.promise);
    const entry = letters[0] as DeadLetter;
    const pending = await replay(guard, entry, () => "twice", { onPending: "reject" });
    expect(pending).toMatchObject({ outcome: "refused", status: "pending", leaseLeftMs: expect.any(Number) });
    late.resolve("receipt");
    expect(await replay(guard, entry, () => "twice")).toMatchObject({
      outcome: "replayed",
      value: "receipt",
    });
  });

  test("that was cut off may be retried, even on a guard with onLapsed hold", async () => {
    const entry = await failedEntry();
    const record = { operation: "nevertwice:dead-letter", key: compositeKey(entry.id, entry.replays) };
    await guard.run({ ...record, onFailure: "unknown" }, down).catch(() => {});
    const careful = guard.with({ onLapsed: "hold" });
    expect(await replay(careful, entry, () => "receipt")).toMatchObject({ outcome: "ran" });
  });

  test("is erased with its scope", async () => {
    const entry = await failedEntry({ scope: "tenant" });
    await replay(guard, entry, () => "receipt");
    expect(await guard.forget({ scope: "tenant" })).toMatchObject({ forgotten: 2 });
  });

  test("may have a fallback, which receives the context of the entry", async () => {
    const entry = await failedEntry();
    const options = { fallback: (_: unknown, context: unknown) => ({ later: context }) };
    expect(await replay(guard, entry, down, options)).toMatchObject({
      outcome: "fallback",
      value: { later: { id: "42", amount: 7 } },
      entry: { replays: 1 },
    });
    expect((await guard.read(SUBJECT))?.state).toBe("released");
  });

  test.each<[what: string, broken: object | undefined]>([
    ["no entry", undefined],
    ["no id", { id: undefined }],
    ["no key", { key: "" }],
    ["no operation", { operation: undefined }],
    ["replays that are not a number", { replays: "1" }],
  ])("of %s is refused", async (_, broken) => {
    const entry = broken && { ...(await failedEntry()), ...broken };
    await expect(replay(guard, entry as never, down)).rejects.toEqual(
      failure("options-invalid", "dead letter"),
    );
  });

  test("with invalid options is refused, and the entry is not used up", async () => {
    const entry = await failedEntry();
    const strict = guard.with({ onFailure: "remember" });
    await expect(replay(strict, entry, down, { leaseMs: "1s" } as never)).rejects.toEqual(
      failure("options-invalid", "leaseMs"),
    );
    expect(await replay(guard, entry, () => "receipt")).toMatchObject({ outcome: "ran" });
  });
});
