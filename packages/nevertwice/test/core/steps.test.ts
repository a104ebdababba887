/** Tests `attempt.step`: what a later attempt skips, what it repeats, and what happens if a step cannot be kept. */
import { expect, test, vi } from "vitest";
import type { Attempt } from "../../src/core/attempt.ts";
import { NevertwiceError } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import { createScene, type Scene } from "./scene.ts";

const request = { operation: "order", scope: "alice", key: "order-1" };

/** Work of three steps that notes which of them ran, and fails after `failsAfter` steps. */
function createWork(ran: string[], failsAfter = 3) {
  return async (attempt: Attempt) => {
    const values: unknown[] = [];
    for (const name of ["charge", "ship", "mail"].slice(0, failsAfter))
      values.push(
        await attempt.step(name, async () => {
          ran.push(name);
          return { did: name };
        }),
      );
    if (failsAfter < 3) throw new Error("failed");
    return values;
  };
}

const VALUES = [{ did: "charge" }, { did: "ship" }, { did: "mail" }];

test("a later attempt gets the outcomes of finished steps and runs only the others", async () => {
  const { guard } = createScene();
  const ran: string[] = [];
  await expect(guard.run(request, createWork(ran, 2))).rejects.toThrow("failed");
  expect(await guard.run(request, createWork(ran))).toEqual(VALUES);
  expect(ran).toEqual(["charge", "ship", "mail"]);
  expect(await guard.run(request, createWork(ran))).toEqual(VALUES);
  expect(ran).toEqual(["charge", "ship", "mail"]);
});

test("an attempt that takes over skips what the lapsed one finished", async () => {
  const { guard, another, advance, settle } = createScene({ leaseMs: 1_000, maxRunMs: 500, waitMs: 0 });
  const ran: string[] = [];
  const dying = guard
    .run(request, async (attempt) => {
      await attempt.step("charge", () => void ran.push("charge"));
      await new Promise(() => {});
    })
    .catch(() => {});
  await advance(2_000);
  const work = async (attempt: Attempt) => {
    await attempt.step("charge", () => void ran.push("charge"));
    return attempt.step("ship", () => ran.push("ship"));
  };
  expect(await settle(another().tryRun(request, work))).toMatchObject({ status: "ran", value: 2 });
  expect(ran).toEqual(["charge", "ship"]);
  void dying;
});

test("a step costs one call to the store, and work without steps costs none more than before", async () => {
  const { guard, store } = createScene();
  await guard.run(request, createWork([]));
  expect(store.calls).toMatchObject({ claim: 1, keepStep: 3, complete: 1, read: 0, renew: 0 });
  await guard.run({ ...request, key: "order-2" }, async () => 1);
  expect(store.calls).toMatchObject({ claim: 2, keepStep: 3, complete: 2, read: 0, renew: 0 });
});

test("a step gives its work's value as a later attempt will get it", async () => {
  const { guard } = createScene();
  class Receipt {
    id = 7;
  }
  const seen: unknown[] = [];
  const warning = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  const work = async (attempt: Attempt) => {
    seen.push(await attempt.step("when", () => new Date(0)));
    seen.push(await attempt.step("nothing", () => undefined));
    seen.push(await attempt.step("receipt", () => new Receipt()));
    throw new Error("failed");
  };
  await expect(guard.run(request, work)).rejects.toThrow("failed");
  expect(seen).toEqual([new Date(0), undefined, new Receipt()]);
  expect(warning).toHaveBeenCalledWith(
    expect.stringContaining('step "receipt"'),
    expect.objectContaining({ code: "NEVERTWICE_NOT_KEPT" }),
  );
  warning.mockRestore();
});

test("a step whose outcome could not be kept is not repeated: a later attempt gets not-kept and ends unknown", async () => {
  const { guard, events } = createScene({ maxOutcomeBytes: 500 });
  let runs = 0;
  const work = async (attempt: Attempt) => {
    const text = await attempt.step("large", () => {
      runs++;
      return "x".repeat(1_000);
    });
    if (attempt.number === 1) throw new Error("failed");
    return text.length;
  };
  await expect(guard.run(request, work)).rejects.toThrow("failed");
  expect(events.find(({ kind }) => kind === "step-kept")).toMatchObject({ step: "large", position: 1 });
  expect(events.find(({ kind }) => kind === "step-kept")).toHaveProperty("notKept", expect.any(String));
  await expect(guard.run(request, work)).rejects.toMatchObject({ code: "not-kept" });
  expect((await guard.read(request))?.state).toBe("lapsed");
  expect(runs).toBe(1);
  // Work that does not need the value may go on.
  const caught = (attempt: Attempt) => attempt.step("large", () => "").catch((error) => error.code);
  expect(await guard.run(request, caught)).toBe("not-kept");
});

test("the steps of a record share maxOutcomeBytes", async () => {
  const { guard, events } = createScene({ maxOutcomeBytes: 1_000 });
  await guard.run(request, async (attempt) => {
    for (const name of ["a", "b", "c"]) await attempt.step(name, () => "x".repeat(300));
  });
  const kept = events.filter((event) => event.kind === "step-kept");
  expect(kept.map(({ notKept }) => notKept === undefined)).toEqual([true, true, false]);
});

test("the limit counts the bytes that the record takes, with escapes", async () => {
  const { guard, events } = createScene({ maxOutcomeBytes: 600 });
  const quotes = '"'.repeat(200);
  expect(await guard.run(request, (attempt) => attempt.step("quotes", () => quotes))).toBe(quotes);
  expect(events.find(({ kind }) => kind === "step-kept")).toMatchObject({
    notKept: expect.stringContaining("maxOutcomeBytes"),
  });
});

test("maxSteps limits the number of steps, before the work of the step runs", async () => {
  const { guard } = createScene({ maxSteps: 2 });
  const ran: string[] = [];
  await expect(guard.run(request, createWork(ran))).rejects.toMatchObject({ code: "options-invalid" });
  expect(ran).toEqual(["charge", "ship"]);
});

test("a step that throws is not kept, its error goes on to the work, and the work may try it again", async () => {
  const { guard, store } = createScene();
  let tries = 0;
  const flaky = async () => {
    if (++tries < 3) throw new Error(`try ${tries}`);
    return tries;
  };
  const work = async (attempt: Attempt) => {
    await expect(attempt.step("flaky", flaky)).rejects.toThrow("try 1");
    await expect(attempt.step("flaky", flaky)).rejects.toThrow("try 2");
    expect(store.calls.keepStep).toBe(0);
    return attempt.step("flaky", flaky);
  };
  expect(await guard.run(request, work)).toBe(3);
});

test("refuses a second step while one runs, two steps of one name, and a malformed step", async () => {
  const { guard } = createScene();
  await guard.run(request, async (attempt) => {
    const first = attempt.step("first", () => new Promise((resolve) => setImmediate(resolve, 1)));
    await expect(attempt.step("second", () => 2)).rejects.toThrow(/"first" was running/);
    await first;
    await expect(attempt.step("first", () => 2)).rejects.toThrow(/two steps called "first"/);
    await expect(attempt.step("", () => 2)).rejects.toMatchObject({ code: "options-invalid" });
    await expect(attempt.step("third", 5 as never)).rejects.toMatchObject({ code: "options-invalid" });
    expect(await attempt.step("second", () => 2)).toBe(2);
  });
});

test("an attempt with another step at the same position ends unknown, and an operator can decide it", async () => {
  const { guard, kinds } = createScene();
  const ran: string[] = [];
  await expect(guard.run(request, createWork(ran, 2))).rejects.toThrow("failed");
  const renamed = async (attempt: Attempt) => {
    await attempt.step("charge", () => void ran.push("charge"));
    // Work that hides the failure must not complete the key either.
    await attempt.step("deliver", () => void ran.push("deliver")).catch(() => {});
    await attempt.step("mail", () => void ran.push("mail")).catch(() => {});
    return "done";
  };
  for (let tries = 0; tries < 2; tries++) {
    const result = await guard.tryRun(request, renamed);
    expect(result).toMatchObject({ status: "unknown", reason: expect.stringContaining('"deliver"') });
    const { state, fence, steps } = (await guard.read(request)) ?? {};
    expect({ state, fence }).toEqual({ state: "lapsed", fence: result.status === "unknown" && result.fence });
    expect(steps?.map(({ name }) => name)).toEqual(["charge", "ship"]);
  }
  await expect(guard.run(request, renamed)).rejects.toMatchObject({ code: "unknown" });
  expect(ran).toEqual(["charge", "ship"]);
  expect(kinds()).not.toContain("completed");
  const fence = (await guard.read(request))?.fence as number;
  expect(await guard.resolve({ ...request, fence }, { status: "done", value: "by hand" })).toBe(true);
  expect(await guard.run(request, renamed)).toBe("by hand");
});

test("an attempt that asks for fewer steps than are kept completes", async () => {
  const { guard } = createScene();
  await expect(guard.run(request, createWork([], 2))).rejects.toThrow("failed");
  expect(await guard.run(request, (attempt) => attempt.step("charge", () => "no"))).toEqual({
    did: "charge",
  });
});

test("another fingerprint conflicts with a released key that has steps", async () => {
  const { guard } = createScene();
  await expect(guard.run({ ...request, fingerprint: 1 }, createWork([], 1))).rejects.toThrow("failed");
  expect(await guard.tryRun({ ...request, fingerprint: 2 }, createWork([]))).toEqual({
    status: "conflict",
    state: "released",
  });
  expect(await guard.run({ ...request, fingerprint: 1 }, createWork([]))).toEqual(VALUES);
});

/** Runs two steps; the fault hits the keepStep of the first. */
async function twoSteps({ guard, settle }: Scene, ran: string[]) {
  const work = async (attempt: Attempt) => {
    await attempt.step("charge", () => void ran.push("charge"));
    await attempt.step("ship", () => void ran.push("ship"));
    return "done";
  };
  return settle(guard.tryRun(request, work));
}

test.each(["refuse", "hang", "lose-reply", "break-reply"] as const)(
  "a step whose record was not confirmed (%s) is sent again before the next step runs",
  async (fault) => {
    const scene = createScene();
    scene.store.plan("keepStep", fault);
    const ran: string[] = [];
    expect(await twoSteps(scene, ran)).toMatchObject({ status: "ran", value: "done" });
    expect(ran).toEqual(["charge", "ship"]);
    expect(scene.store.calls.keepStep).toBe(3);
    expect(scene.events).toContainEqual(expect.objectContaining({ kind: "unavailable", during: "step" }));
  },
);

test("while the store does not answer, no next step runs, and the attempt ends when its lease does", async () => {
  const scene = createScene({ leaseMs: 2_000, storeTimeoutMs: 500 });
  const { guard, store, settle } = scene;
  const ran: string[] = [];
  const result = settle(
    guard.tryRun(request, async (attempt) => {
      await attempt.step("charge", () => {
        ran.push("charge");
        store.setRates({ refuse: 1 });
      });
      await attempt.step("ship", () => void ran.push("ship"));
    }),
  );
  await expect(result).rejects.toMatchObject({ code: "lease-lost" });
  expect(ran).toEqual(["charge"]);
  expect(store.calls.keepStep).toBeGreaterThan(2);
});

test("a step that finds its claim taken over is lease-lost, and fires the signal", async () => {
  const { guard, another, settle, jump, inner } = createScene({ leaseMs: 1_000, waitMs: 0 });
  let isFired = false;
  const work = async (attempt: Attempt) => {
    attempt.signal.addEventListener("abort", () => {
      isFired = true;
    });
    await attempt.step("charge", async () => {
      jump(2_000);
      await another().run(request, () => "other");
    });
  };
  // The other attempt completed the key, so its outcome is what the caller of the first one gets an error about.
  await expect(settle(guard.tryRun(request, work))).rejects.toMatchObject({ code: "lease-lost" });
  expect(isFired).toBe(true);
  expect((await inner.read((await guard.read(request))?.id ?? ""))?.outcome).toContain("other");
});

test("step and deriveKey throw after the claim is lost, and the work of the step does not run", async () => {
  const { guard, advance } = createScene({ leaseMs: 1_000, maxRunMs: 100 });
  let isRun = false;
  const run = guard.tryRun(request, async (attempt) => {
    await advance(200);
    expect(() => attempt.deriveKey("psp")).toThrow(/lease-lost/);
    await attempt.step("charge", () => {
      isRun = true;
    });
  });
  await expect(run).rejects.toMatchObject({ code: "lease-lost" });
  expect(isRun).toBe(false);
});

test("a store without keepStep is refused at the first step, before its work runs", async () => {
  const scene = createScene();
  const { keepStep: _, ...bare } = scene.inner;
  let isRun = false;
  const guard = scene.another({ store: bare as Store });
  const work = (attempt: Attempt) =>
    attempt.step("charge", () => {
      isRun = true;
    });
  await expect(guard.run(request, work)).rejects.toMatchObject({ code: "options-invalid" });
  expect(isRun).toBe(false);
});

test("a store that refuses a step for good ends the attempt unknown", async () => {
  const scene = createScene();
  const keepStep = () => Promise.reject(new NevertwiceError("store-unsafe", "no such column"));
  const guard = scene.another({ store: { ...scene.inner, keepStep } });
  const result = await guard.tryRun(request, (attempt) => attempt.step("charge", () => 1));
  expect(result).toMatchObject({ status: "unknown", reason: expect.stringContaining("no such column") });
  expect((await scene.guard.read(request))?.state).toBe("lapsed");
});

test("work that proceeds without a claim runs its steps without keeping them", async () => {
  const { guard, store, settle } = createScene({ onUnavailable: "proceed" });
  store.setRates({ refuse: 1 });
  const ran: string[] = [];
  expect(await settle(guard.tryRun(request, createWork(ran)))).toMatchObject({ value: VALUES });
  expect(store.calls.keepStep).toBe(0);
});

test("work that throws while a step still runs ends unknown, and the late step cannot be kept", async () => {
  const { guard, settle, sleep } = createScene();
  let late: Promise<unknown> = Promise.resolve();
  const run = guard.run(request, async (attempt) => {
    late = attempt.step("slow", () => sleep(1_000));
    throw new Error("impatient");
  });
  await expect(run).rejects.toThrow("impatient");
  expect((await guard.read(request))?.state).toBe("lapsed");
  await expect(settle(late)).rejects.toMatchObject({ code: "lease-lost" });
  expect((await guard.read(request))?.steps).toBeUndefined();
});

test("events name each step that is kept or skipped", async () => {
  const { guard, events } = createScene();
  await expect(guard.run(request, createWork([], 1))).rejects.toThrow("failed");
  await guard.run(request, createWork([], 2)).catch(() => {});
  const steps = events.filter((event) => event.kind === "step-kept" || event.kind === "step-skipped");
  expect(steps).toMatchObject([
    { operation: "order", kind: "step-kept", step: "charge", position: 1 },
    { operation: "order", kind: "step-skipped", step: "charge", position: 1 },
    { operation: "order", kind: "step-kept", step: "ship", position: 2 },
  ]);
});

test("read and list show the finished steps, and forget erases them", async () => {
  const { guard } = createScene();
  await expect(guard.run(request, createWork([], 2))).rejects.toThrow("failed");
  const steps = [
    { name: "charge", keptAt: expect.any(Number), outcome: { kind: "value", value: { did: "charge" } } },
    { name: "ship", keptAt: expect.any(Number), outcome: { kind: "value", value: { did: "ship" } } },
  ];
  expect(await guard.read(request)).toMatchObject({ state: "released", steps });
  expect(await guard.list()).toMatchObject({ records: [{ steps }] });
  expect(await guard.forget(request)).toBe(true);
  const ran: string[] = [];
  await guard.run(request, createWork(ran));
  expect(ran).toEqual(["charge", "ship", "mail"]);
});
