/** Tests `require`: a store that does not survive the required fault receives no claim until it does. */
import { expect, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import { FAULTS, type Fault, type StoreSettings } from "../../src/core/durability.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", key: "order-1" };

/** Settings that survive every fault up to this one. */
function settingsUpTo(hardest: Fault | undefined, extra: Partial<StoreSettings> = {}): StoreSettings {
  const last = hardest === undefined ? -1 : FAULTS.indexOf(hardest);
  const survives = Object.fromEntries(
    FAULTS.map((fault, index) => [
      fault,
      index <= last
        ? { survives: "yes", because: "mode strong" }
        : { survives: "no", because: "mode weak", raise: "set mode strong" },
    ]),
  ) as unknown as StoreSettings["survives"];
  return { title: "a test store", survives, notes: [], ...extra };
}

function guardOn(settings: () => Promise<StoreSettings>, require: Fault, onUnavailable?: "proceed") {
  const asked = { count: 0 };
  const store = {
    ...memoryStore(),
    settings() {
      asked.count++;
      return settings();
    },
  };
  return { asked, store, guard: createGuard({ store, require, purgeEveryMs: 0, onUnavailable }) };
}

test.each(FAULTS)("a guard that requires %s accepts a store that survives it", async (required) => {
  const { guard, asked } = guardOn(async () => settingsUpTo(required), required);
  await guard.ready();
  expect(await guard.run(request, () => "done")).toBe("done");
  expect(await guard.run({ ...request, key: "order-2" }, () => "done too")).toBe("done too");
  expect(asked.count).toBe(1);
});

test.each(FAULTS)(
  "a guard that requires %s refuses a store that survives only lesser faults",
  async (required) => {
    const less = FAULTS[FAULTS.indexOf(required) - 1];
    const { guard, store } = guardOn(async () => settingsUpTo(less), required);
    const why = new RegExp(
      `require: "${required}".*a test store.*${required}: no, mode weak.*set mode strong`,
    );
    await expect(guard.ready()).rejects.toMatchObject({ code: "store-unsafe", message: why });
    let runs = 0;
    await expect(guard.run(request, () => ++runs)).rejects.toMatchObject({ code: "store-unsafe" });
    expect(await guard.tryRun(request, () => ++runs)).toMatchObject({
      status: "unavailable",
      error: { code: "store-unsafe", retryable: false },
    });
    expect(runs).toBe(0);
    expect(await store.list?.({ namespace: "default", limit: 10 })).toEqual({ records: [] });
  },
);

test("surviving a harder fault does not make up for an easier one", async () => {
  const settings = settingsUpTo("failover");
  const holed = { ...settings.survives, "store-crash": { survives: "no", because: "no log" } as const };
  const { guard } = guardOn(async () => ({ ...settings, survives: holed }), "power-loss");
  await expect(guard.ready()).rejects.toMatchObject({ message: /store-crash: no, no log/ });
});

test("refuses a store whose settings cannot be read", async () => {
  const { settings: _, ...silent } = memoryStore();
  const guard = createGuard({ store: silent, require: "our-crash" });
  await expect(guard.ready()).rejects.toMatchObject({ code: "store-unsafe", message: /unknown/ });
});

test("refuses a store with unsafe settings whatever it survives", async () => {
  const refused = "maxmemory-policy is allkeys-lru: set it to noeviction.";
  const { guard } = guardOn(async () => settingsUpTo("failover", { refused }), "our-crash");
  await expect(guard.ready()).rejects.toMatchObject({ code: "store-unsafe", message: /noeviction/ });
});

test("works as soon as the store is set up as required", async () => {
  let settings = settingsUpTo("store-crash");
  const { guard } = guardOn(async () => settings, "power-loss");
  await expect(guard.run(request, () => 1)).rejects.toMatchObject({ code: "store-unsafe" });
  settings = settingsUpTo("power-loss");
  expect(await guard.run(request, () => 1)).toBe(1);
});

test("calls that arrive while the settings are read wait for the same read", async () => {
  const { guard, asked } = guardOn(async () => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    return settingsUpTo("power-loss");
  }, "power-loss");
  const keys = ["a", "b", "c"];
  expect(await Promise.all(keys.map((key) => guard.run({ ...request, key }, () => key)))).toEqual(keys);
  expect(asked.count).toBe(1);
});

test("a store whose settings cannot be read in time is unavailable, and the policy still decides whether to proceed", async () => {
  const broken = async () => {
    throw new Error("connection refused");
  };
  const { guard } = guardOn(broken, "power-loss");
  await expect(guard.run(request, () => 1)).rejects.toMatchObject({ code: "unavailable" });
  const eager = guardOn(broken, "power-loss", "proceed");
  expect(await eager.guard.run(request, () => "proceeded")).toBe("proceeded");
});

test("never proceeds without an unsafe store, whatever the policy", async () => {
  const { guard } = guardOn(async () => settingsUpTo(undefined), "our-crash", "proceed");
  await expect(guard.run(request, () => 1)).rejects.toMatchObject({ code: "store-unsafe" });
});

test("reading the settings is bounded by storeTimeoutMs", async () => {
  const { another, inner, settle } = createScene();
  const store = { ...inner, settings: () => new Promise<never>(() => {}) };
  const guard = another({ store, require: "our-crash", storeTimeoutMs: 100 });
  await expect(settle(guard.run(request, () => 1))).rejects.toMatchObject({ code: "unavailable" });
  await expect(settle(guard.ready())).rejects.toMatchObject({ code: "unavailable" });
});

test("refuses an unknown requirement", () => {
  const store = memoryStore();
  expect(() => createGuard({ store, require: "earthquake" as Fault })).toThrow(/"our-crash" or/);
});

test("diagnose reports that memory survives nothing, and what to use instead", async () => {
  const diagnosis = await diagnose(memoryStore());
  expect(diagnosis.rung).toBeUndefined();
  expect(`${diagnosis}`).toMatch(/^memory\n {2}our-crash {4}no .*to raise it: use a store that outlives/);
  expect(`${diagnosis}`.split("\n")).toHaveLength(5);
});

test("the rung of a diagnosis is the hardest fault that is survived together with all easier ones", async () => {
  for (const fault of FAULTS) {
    const store = { ...memoryStore(), settings: async () => settingsUpTo(fault) };
    expect((await diagnose(store)).rung).toBe(fault);
  }
  const refused = {
    ...memoryStore(),
    settings: async () => settingsUpTo("failover", { refused: "it evicts", notes: ["a note"] }),
  };
  const diagnosis = await diagnose(refused);
  expect(diagnosis.rung).toBeUndefined();
  expect(`${diagnosis}`).toMatch(/refused: it evicts[\s\S]*note: a note$/);
});
