/** Tests the guard around real policies: each operation runs once, whatever the policy does with the work. */
import {
  BulkheadRejectedError,
  bulkhead,
  CircuitState,
  ConsecutiveBreaker,
  ConstantBackoff,
  circuitBreaker,
  fallback,
  handleAll,
  handleType,
  handleWhenResult,
  isBrokenCircuitError,
  retry,
  TaskCancelledError,
  TimeoutStrategy,
  timeout,
  wrap,
} from "cockatiel";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Attempt } from "../../src/core/attempt.ts";
import type { GuardEvent } from "../../src/core/observer.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { protect, protectedFunction, tryProtect } from "../../src/functions/protect.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type FaultyStore, faultyStore } from "../../src/testing/faulty-store.ts";
import { createScene } from "../core/scene.ts";
import { deferred } from "../deferred.ts";
import { failure } from "./protect-scene.ts";

const CHARGE = { operation: "charge", key: "orderId", context: { orderId: "42" } } as const;
const SUBJECT = { operation: "charge", key: "42" };
const retries = (maxAttempts: number) => retry(handleAll, { maxAttempts, backoff: new ConstantBackoff(0) });

let store: FaultyStore;
let events: GuardEvent[];
let guard: Guard;
beforeEach(() => {
  store = faultyStore(memoryStore());
  events = [];
  guard = createGuard({ store, purgeEveryMs: 0, observer: (event) => events.push(event) });
});
afterEach(() => guard.close());

const kinds = () => events.map(({ kind }) => kind);
const stateNow = async () => (await guard.read(SUBJECT))?.state;

/** Work that throws this many times before it returns. */
function failing(times: number) {
  const seen = { runs: 0 };
  return {
    seen,
    work: async () => {
      if (seen.runs++ < times) throw new Error(`down ${seen.runs}`);
      return `receipt ${seen.runs}`;
    },
  };
}

describe("once per operation", () => {
  test("a retry runs the work again under the same claim, and a duplicate gets its value", async () => {
    const { work, seen } = failing(2);
    const first = await tryProtect(guard, { ...CHARGE, policy: retries(3) }, work);
    expect(first).toMatchObject({ outcome: "ran", value: "receipt 3", attempts: 3, recorded: true });
    const again = await tryProtect(guard, { ...CHARGE, policy: retries(3) }, work);
    expect(again).toMatchObject({ outcome: "replayed", value: "receipt 3", attempts: 0, isFallback: false });
    expect(seen.runs).toBe(3);
    expect(kinds()).toEqual(["claimed", "completed", "replayed"]);
  });

  test("duplicates that arrive during the retries wait for the answer", async () => {
    const { work, seen } = failing(3);
    const calls = Array.from({ length: 5 }, () => protect(guard, { ...CHARGE, policy: retries(5) }, work));
    expect(new Set(await Promise.all(calls))).toEqual(new Set(["receipt 4"]));
    expect(seen.runs).toBe(4);
  });

  test("work that fails after its last retry throws the last error, and the key is free", async () => {
    const { work, seen } = failing(9);
    await expect(protect(guard, { ...CHARGE, policy: retries(2) }, work)).rejects.toThrow("down 3");
    expect(await stateNow()).toBe("released");
    expect(await protect(guard, { ...CHARGE, policy: retries(9) }, work)).toBe("receipt 10");
    expect(seen.runs).toBe(10);
  });

  test("runs the work once without a policy", async () => {
    expect(await protect(guard, CHARGE, (attempt) => attempt.number)).toBe(1);
    expect(await protect(guard, CHARGE, () => 2)).toBe(1);
    await expect(
      protect(guard, { ...CHARGE, context: { orderId: "43" } }, () => {
        throw new Error("at once");
      }),
    ).rejects.toThrow("at once");
  });

  test("every invocation has the same identity: the same derived key, fence and number", async () => {
    const seen: unknown[] = [];
    await protect(guard, { ...CHARGE, policy: retries(2) }, (attempt, execution) => {
      seen.push([attempt.deriveKey("psp"), attempt.fence, attempt.number]);
      if (execution.attempt < 2) throw new Error("again");
      return "done";
    });
    expect(new Set(seen.map((each) => JSON.stringify(each))).size).toBe(1);
    expect(seen).toHaveLength(3);
  });

  test("wrapped policies compose: bulkhead, retry, breaker and timeout", async () => {
    const policy = wrap(
      bulkhead(2, 10),
      retries(3),
      circuitBreaker(handleAll, { halfOpenAfter: 60_000, breaker: new ConsecutiveBreaker(5) }),
      timeout(5_000, TimeoutStrategy.Cooperative),
    );
    const { work } = failing(2);
    expect(await protect(guard, { ...CHARGE, policy }, work)).toBe("receipt 3");
    expect(await protect(guard, { ...CHARGE, policy }, work)).toBe("receipt 3");
  });
});

describe("an open breaker", () => {
  const breakerOf = (threshold: number) =>
    circuitBreaker(handleAll, { halfOpenAfter: 60_000, breaker: new ConsecutiveBreaker(threshold) });

  test("blocks no replay, and does not count duplicates as failures", async () => {
    const policy = breakerOf(2);
    const { work } = failing(0);
    await protect(guard, { ...CHARGE, policy }, work);
    const hold = policy.isolate();
    const again = await tryProtect(guard, { ...CHARGE, policy }, work);
    expect(again).toMatchObject({ outcome: "replayed", value: "receipt 1" });
    hold.dispose();
    const conflicting = { ...CHARGE, policy, fingerprint: { amount: 1 } };
    await protect(guard, { ...conflicting, context: { orderId: "7" } }, work);
    for (const amount of [2, 3, 4]) {
      const options = { ...conflicting, context: { orderId: "7" }, fingerprint: { amount } };
      expect(await tryProtect(guard, options, work)).toMatchObject({
        outcome: "refused",
        status: "conflict",
      });
    }
    expect(policy.state).toBe(CircuitState.Closed);
  });

  test("means that nothing was done: the key is free, whatever onFailure says", async () => {
    const policy = breakerOf(1);
    policy.isolate();
    const answer = await tryProtect(guard, { ...CHARGE, policy, onFailure: "remember" }, () => "done");
    expect(answer).toMatchObject({ outcome: "failed", attempts: 0, isReplayed: false });
    expect(answer.outcome === "failed" && isBrokenCircuitError(answer.error)).toBe(true);
    expect(await stateNow()).toBe("released");
  });

  test("after failed work does not hide that the work failed", async () => {
    const policy = wrap(retries(3), breakerOf(1));
    const answer = await tryProtect(guard, { ...CHARGE, policy, onFailure: "unknown" }, () => {
      throw new Error("no answer");
    });
    expect(answer.outcome === "failed" && isBrokenCircuitError(answer.error)).toBe(true);
    expect(answer.attempts).toBe(1);
    expect(await stateNow()).toBe("lapsed");
  });
});

describe("a full bulkhead", () => {
  test("refuses the call, and the key is free", async () => {
    const policy = bulkhead(1, 0);
    const held = deferred<string>();
    const holding = policy.execute(() => held.promise);
    await expect(protect(guard, { ...CHARGE, policy, onFailure: "unknown" }, () => "done")).rejects.toThrow(
      BulkheadRejectedError,
    );
    expect(await stateNow()).toBe("released");
    held.resolve("");
    await holding;
    expect(await protect(guard, { ...CHARGE, policy }, () => "done")).toBe("done");
  });
});

describe("a fallback", () => {
  const down = () => {
    throw new Error("down");
  };

  test.each<[what: string, options: object]>([
    ["of the options", { fallback: () => "queued" }],
    ["inside the policy", { policy: fallback(handleAll, () => "queued") }],
    [
      "outside a retry",
      {
        policy: wrap(
          fallback(handleAll, () => "queued"),
          retries(2),
        ),
      },
    ],
  ])("%s answers, and its answer is not stored: the next call runs the work", async (_, options) => {
    const first = await tryProtect(guard, { ...CHARGE, ...options }, down);
    expect(first).toMatchObject({ outcome: "fallback", value: "queued", isFallback: true });
    expect(first).toMatchObject({ error: expect.objectContaining({ message: "down" }) });
    expect(await stateNow()).toBe("released");
    expect(await protect(guard, { ...CHARGE, ...options }, () => "receipt")).toBe("receipt");
    expect(await protect(guard, { ...CHARGE, ...options }, down)).toBe("receipt");
  });

  test("inside the policy in front of an open breaker leaves the key free, whatever onFailure says", async () => {
    const breaker = circuitBreaker(handleAll, { halfOpenAfter: 60_000, breaker: new ConsecutiveBreaker(1) });
    breaker.isolate();
    const policy = wrap(fallback(handleAll, undefined), breaker);
    const answer = await tryProtect(guard, { ...CHARGE, policy, onFailure: "remember" }, () => undefined);
    expect(answer).toMatchObject({ outcome: "fallback", value: undefined, attempts: 0 });
    expect(await stateNow()).toBe("released");
  });

  test("that returns the same value as the work still counts as a fallback", async () => {
    const policy = fallback(handleAll, undefined);
    const answer = await tryProtect(guard, { ...CHARGE, policy }, down);
    expect(answer.outcome).toBe("fallback");
    expect(await stateNow()).toBe("released");
  });

  test("that replaces a result which the policy refuses is not stored either", async () => {
    const policy = fallback(
      handleWhenResult((value) => (value as { status: number }).status === 503),
      () => ({ status: 202 }),
    );
    const answer = await tryProtect(guard, { ...CHARGE, policy }, () => ({ status: 503 }));
    expect(answer).toMatchObject({ outcome: "fallback", value: { status: 202 } });
    expect(await stateNow()).toBe("released");
    expect(await protect(guard, { ...CHARGE, policy }, () => ({ status: 200 }))).toEqual({ status: 200 });
  });

  test("inside the policy comes first: the fallback of the options is not called as well", async () => {
    const policy = fallback(handleAll, () => "of the policy");
    expect(await protect(guard, { ...CHARGE, policy, fallback: () => "ours" }, down)).toBe("of the policy");
  });

  test("receives the error and the context, and its own error is thrown to the caller", async () => {
    const asked: unknown[] = [];
    const options = {
      ...CHARGE,
      fallback(error: unknown, context: { orderId: string }): string {
        asked.push((error as Error).message, context);
        throw new Error("no fallback either");
      },
    };
    await expect(protect(guard, options, down)).rejects.toThrow("no fallback either");
    expect(asked).toEqual(["down", CHARGE.context]);
  });

  test("is called for a remembered error", async () => {
    const options = { ...CHARGE, onFailure: "remember", fallback: () => "queued" } as const;
    const first = await tryProtect(guard, options, down);
    expect(first).toMatchObject({ outcome: "fallback", isReplayed: false });
    const again = await tryProtect(guard, options, () => "not run");
    expect(again).toMatchObject({ outcome: "fallback", value: "queued", isReplayed: true, attempts: 0 });
    await expect(protect(guard, { ...options, fallback: undefined }, () => "not run")).rejects.toThrow(
      "down",
    );
  });

  test.each<[status: string, meets: () => Promise<object>]>([
    [
      "already-done",
      async () => {
        await guard.run(SUBJECT, () => "done");
        return { onCompleted: "reject" };
      },
    ],
    [
      "conflict",
      async () => {
        await guard.run({ ...SUBJECT, fingerprint: { amount: 1 } }, () => "done");
        return { fingerprint: { amount: 2 } };
      },
    ],
    [
      "pending",
      async () => {
        const held = deferred<string>();
        void guard.run(SUBJECT, () => held.promise);
        setTimeout(held.resolve, 200, "done");
        return { onPending: "reject" };
      },
    ],
    [
      "unknown",
      async () => {
        await guard.run({ ...SUBJECT, onFailure: "unknown" }, down).catch(() => {});
        return { onLapsed: "hold" };
      },
    ],
    [
      "unavailable",
      async () => {
        store.setRates({ refuse: 1 });
        return { storeTimeoutMs: 50 };
      },
    ],
    [
      "not-kept",
      async () => {
        await guard.run(SUBJECT, () => () => "a function");
        return {};
      },
    ],
  ])("never hides %s, which the policy does not see either", async (status, meets) => {
    const options = { ...CHARGE, ...(await meets()) };
    let asked = 0;
    const policy = {
      execute: (fn: () => Promise<never>) => {
        asked++;
        return fn();
      },
    };
    const answer = await tryProtect(guard, { ...options, policy, fallback: () => asked++ }, () => "not run");
    expect(answer).toMatchObject({ outcome: "refused", status, error: failure(status), isFallback: false });
    await expect(protect(guard, { ...options, fallback: () => "hidden" }, () => "not run")).rejects.toEqual(
      failure(status),
    );
    expect(asked).toBe(0);
    store.setRates({});
  });
});

describe("a timeout", () => {
  test("that is cooperative cancels the work through its signal", async () => {
    const policy = timeout(10, TimeoutStrategy.Cooperative);
    const answer = await tryProtect(guard, { ...CHARGE, policy }, (attempt) => aborted(attempt));
    expect(answer).toMatchObject({ outcome: "failed", attempts: 1 });
    expect(await stateNow()).toBe("released");
  });

  test("that is aggressive answers at once, and the key stays claimed until the work has ended", async () => {
    const policy = timeout(10, TimeoutStrategy.Aggressive);
    const late = deferred<string>();
    const answer = await tryProtect(guard, { ...CHARGE, policy }, () => late.promise);
    expect(answer).toMatchObject({ outcome: "failed", attempts: 1 });
    expect(answer.outcome === "failed" && answer.error).toBeInstanceOf(TaskCancelledError);
    expect(await stateNow()).toBe("pending");
    expect(await guard.tryRun({ ...SUBJECT, onPending: "reject" }, () => "twice")).toMatchObject({
      status: "pending",
    });
    const waiter = protect(guard, { ...CHARGE, policy }, () => "twice");
    late.resolve("receipt");
    expect(await waiter).toBe("receipt");
  });

  test("in front of a fallback does the same", async () => {
    const policy = timeout(10, TimeoutStrategy.Aggressive);
    const late = deferred<string>();
    const options = { ...CHARGE, policy, fallback: () => "queued" };
    expect(await protect(guard, options, () => late.promise)).toBe("queued");
    expect(await stateNow()).toBe("pending");
    late.resolve("receipt");
    expect(await protect(guard, options, () => "twice")).toBe("receipt");
  });

  test("whose work fails late frees the key then, by the error of the work", async () => {
    const judged: unknown[] = [];
    const late = deferred<string>();
    const options = {
      ...CHARGE,
      policy: timeout(10, TimeoutStrategy.Aggressive),
      onFailure: (error: unknown) => {
        judged.push(error);
        return "release" as const;
      },
    };
    await expect(protect(guard, options, () => late.promise)).rejects.toBeInstanceOf(TaskCancelledError);
    expect(await stateNow()).toBe("pending");
    const declined = new Error("declined");
    late.reject(declined);
    expect(await protect(guard, { ...CHARGE }, () => "second")).toBe("second");
    expect(judged).toEqual([declined]);
  });

  test("inside a retry: a late success of an earlier invocation is the outcome, although the later ones failed", async () => {
    const first = deferred<string>();
    const policy = wrap(retries(1), timeout(10, TimeoutStrategy.Aggressive));
    const answer = await tryProtect(guard, { ...CHARGE, policy }, async (_, execution) => {
      if (execution.attempt === 0) return first.promise;
      first.resolve("the first");
      await first.promise;
      await new Promise((resolve) => setImmediate(resolve));
      throw new Error("the second");
    });
    expect(answer).toMatchObject({ outcome: "ran", value: "the first", attempts: 2 });
    expect(await protect(guard, CHARGE, () => "twice")).toBe("the first");
  });

  test("is waited for when the guard closes", async () => {
    const policy = timeout(10, TimeoutStrategy.Aggressive);
    const late = deferred<string>();
    await tryProtect(guard, { ...CHARGE, policy }, () => late.promise);
    let isClosed = false;
    const closing = guard.close().then((left) => {
      isClosed = true;
      return left;
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(isClosed).toBe(false);
    late.resolve("receipt");
    expect(await closing).toEqual([]);
    const another = createGuard({ store, purgeEveryMs: 0 });
    expect(await another.run(SUBJECT, () => "twice")).toBe("receipt");
    await another.close();
  });
});

describe("work that throws notDone", () => {
  class Declined extends Error {}

  test("shows the policy its cause", async () => {
    let runs = 0;
    const policy = retry(handleType(Declined), { maxAttempts: 2, backoff: new ConstantBackoff(0) });
    const answer = await tryProtect(guard, { ...CHARGE, policy, onFailure: "remember" }, (attempt) => {
      runs++;
      throw attempt.notDone(new Declined("no funds"));
    });
    expect(runs).toBe(3);
    expect(answer.outcome === "failed" && answer.error).toBeInstanceOf(Declined);
    expect(await stateNow()).toBe("released");
  });

  test("without a cause throws an error too", async () => {
    await expect(
      protect(guard, { ...CHARGE, policy: retries(1), onFailure: "unknown" }, (attempt) => {
        throw attempt.notDone();
      }),
    ).rejects.toThrow("nothing was done");
    expect(await stateNow()).toBe("released");
  });

  test("does not release the key if an earlier invocation may have done something", async () => {
    const answer = await tryProtect(
      guard,
      { ...CHARGE, policy: retries(1), onFailure: "unknown" },
      (attempt, execution) => {
        if (execution.attempt === 0) throw new Error("connection reset");
        throw attempt.notDone(new Declined("refused"));
      },
    );
    expect(answer.outcome === "failed" && answer.error).toBeInstanceOf(Declined);
    expect(await stateNow()).toBe("lapsed");
  });
});

test("the first caller gets the same copy of a remembered error as later callers", async () => {
  class Declined extends Error {
    override readonly name = "Declined";
  }
  const options = { ...CHARGE, policy: retries(1), onFailure: "remember" } as const;
  const work = () => {
    throw new Declined("no funds");
  };
  const answers = [await tryProtect(guard, options, work), await tryProtect(guard, options, work)];
  const errors = answers.map((answer) => answer.outcome === "failed" && answer.error);
  expect(errors).toMatchObject([
    { name: "Declined", message: "no funds" },
    { name: "Declined", message: "no funds" },
  ]);
  expect(errors.map((error) => error instanceof Declined)).toEqual([false, false]);
  expect(answers).toMatchObject([
    { attempts: 2, isReplayed: false },
    { attempts: 0, isReplayed: true },
  ]);
});

describe("policies of any kind", () => {
  const hedge = (count: number) => ({
    execute: <T>(fn: () => Promise<T>) => Promise.any(Array.from({ length: count }, () => fn())),
  });

  test("may call the work several times at once: the winner's value is the outcome", async () => {
    let runs = 0;
    const never = deferred<number>();
    const work = () => (runs++ === 0 ? never.promise : runs);
    expect(await tryProtect(guard, { ...CHARGE, policy: hedge(3) }, work)).toMatchObject({
      outcome: "ran",
      value: 2,
      attempts: 3,
    });
    expect(await protect(guard, CHARGE, work)).toBe(2);
    never.resolve(1);
  });

  test("may throw at once, and then nothing was done", async () => {
    const policy = {
      execute(): Promise<never> {
        throw new Error("misconfigured");
      },
    };
    const options = { ...CHARGE, policy, onFailure: "remember" } as const;
    await expect(protect(guard, options, () => "done")).rejects.toThrow("misconfigured");
    expect(await stateNow()).toBe("released");
  });

  test("may not call the work after their own call has ended", async () => {
    let runs = 0;
    let invoke: () => Promise<unknown> = async () => "nothing";
    const policy = {
      execute(fn: () => Promise<never>): Promise<never> {
        invoke = fn;
        return Promise.reject(new Error("too busy"));
      },
    };
    await expect(protect(guard, { ...CHARGE, policy }, () => runs++)).rejects.toThrow("too busy");
    await expect(invoke()).rejects.toEqual(failure("lease-lost"));
    expect(runs).toBe(0);
  });

  test("may ignore an invocation that rejects", async () => {
    const policy = {
      async execute<T>(fn: () => Promise<T>): Promise<T> {
        void fn();
        return fn();
      },
    };
    let runs = 0;
    const answer = await tryProtect(guard, { ...CHARGE, policy }, async () => {
      if (runs++ === 0) throw new Error("nobody listens");
      return "done";
    });
    expect(answer).toMatchObject({ outcome: "ran", value: "done", attempts: 2 });
  });

  test.each([undefined, null, "text", 7, { code: 1 }])("and work may throw %o", async (thrown) => {
    const work = () => {
      throw thrown;
    };
    const answer = await tryProtect(guard, { ...CHARGE, policy: retries(1) }, work);
    expect(answer).toMatchObject({ outcome: "failed", attempts: 2 });
    expect(answer.outcome === "failed" && answer.error).toBe(thrown);
    await expect(protect(guard, CHARGE, work)).rejects.toBe(thrown);
    expect(await stateNow()).toBe("released");
  });
});

describe("a claim that is lost", () => {
  /** A retry without its own timers, since time is virtual here. */
  const again = {
    async execute<T>(fn: () => Promise<T>): Promise<T> {
      for (let tries = 1; tries < 5; tries++) await fn().catch(() => {});
      return fn();
    },
  };

  test.each<[what: string, options: object, after: (attempt: Attempt) => unknown]>([
    [
      "stops the retries",
      { policy: again },
      () => {
        throw new Error("aborted");
      },
    ],
    ["stops the work at its next derived key", {}, (attempt) => attempt.deriveKey("psp")],
  ])("%s, and no fallback hides it", async (_, options, after) => {
    const scene = createScene();
    let runs = 0;
    const call = tryProtect(
      scene.guard,
      { ...CHARGE, ...options, fallback: () => "hidden" },
      async (attempt) => {
        runs++;
        scene.store.setRates({ refuse: 1 });
        await aborted(attempt).catch(() => {});
        return after(attempt);
      },
    );
    expect(await scene.settle(call)).toMatchObject({
      outcome: "refused",
      status: "lease-lost",
      error: failure("lease-lost"),
    });
    expect(runs).toBe(1);
  });
});

describe("a caller that cancels", () => {
  test("is not waited for; the work continues, and a duplicate gets its outcome", async () => {
    const controller = new AbortController();
    const held = deferred<string>();
    const begun = deferred<void>();
    const call = tryProtect(guard, { ...CHARGE, signal: controller.signal, fallback: () => "hidden" }, () => {
      begun.resolve();
      return held.promise;
    });
    await begun.promise;
    const gone = new Error("gone");
    controller.abort(gone);
    await expect(call).rejects.toBe(gone);
    held.resolve("receipt");
    expect(await protect(guard, CHARGE, () => "twice")).toBe("receipt");
  });
});

describe("a protected function", () => {
  test("takes its key from its arguments", async () => {
    const { seen, work } = failing(1);
    const charge = protectedFunction(guard, async (order: { id: string }) => `${await work()} ${order.id}`, {
      operation: "charge",
      keyFrom: ["0.id"],
      policy: retries(2),
    });
    expect(await charge({ id: "42" })).toBe("receipt 2 42");
    expect(await charge({ id: "42" })).toBe("receipt 2 42");
    expect(seen.runs).toBe(2);
  });

  test("passes its arguments to the fallback, and writes them to its dead letters", async () => {
    const letters: unknown[] = [];
    const charge = protectedFunction(
      guard,
      async (id: string, _amount: number): Promise<string> => {
        throw new Error(`down ${id}`);
      },
      {
        operation: "charge",
        key: (id) => id,
        fallback: (_, id, amount) => `queued ${id} ${amount}`,
        deadLetters: (entry) => letters.push(entry),
      },
    );
    expect(await charge("42", 7)).toBe("queued 42 7");
    expect(letters).toMatchObject([{ key: "42", args: ["42", 7], error: { message: "down 42" } }]);
  });

  test("refuses invalid options at once", () => {
    const work = (id: string) => id;
    expect(() => protectedFunction(guard, work, { operation: "charge" })).toThrow("exactly one of key");
    expect(() =>
      protectedFunction(guard, work, { operation: "charge", keyFrom: [0], policy: {} as never }),
    ).toThrow("policy must be an object with execute(fn)");
    expect(() => protectedFunction(guard, work, { operation: "charge", keyFrom: [1] })).toThrow(
      "the function has 1 parameter",
    );
    expect(() => protectedFunction(guard, 7 as never, { operation: "charge", keyFrom: [0] })).toThrow(
      "must be a function",
    );
  });
});

/** Rejects like fetch when its signal fires. */
function aborted({ signal }: Attempt): Promise<never> {
  return new Promise((_, reject) => {
    const onAbort = () => reject(new Error("aborted"));
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort);
  });
}
