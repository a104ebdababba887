/** Tests `guardFromEnv`: the environment configures a guard, and no variable is misread or overlooked. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { POLICY_DEFAULTS } from "../../src/core/policy.ts";
import { type EnvGuardOptions, type Environment, guardFromEnv, windowsFromEnv } from "../../src/env/index.ts";
import { VARIABLES } from "../../src/env/variables.ts";
import type { Guard } from "../../src/functions/guard.ts";
import type { Store } from "../../src/index.ts";

async function started(env: Environment, options?: EnvGuardOptions): Promise<Guard> {
  const guard = await guardFromEnv(env, options);
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

const request = { operation: "charge", key: "order-1" };

function refusal(message: RegExp) {
  return expect.objectContaining({ code: "options-invalid", message: expect.stringMatching(message) });
}

describe("each variable", () => {
  test("has the library's own default", async () => {
    const guard = await started({});
    expect(guard.policy).toEqual(POLICY_DEFAULTS);
    expect(guard.policy).toMatchObject({
      leaseMs: 30_000,
      retentionMs: 86_400_000,
      markRetentionMs: 60_000,
      onUnavailable: "refuse",
    });
    expect(Object.entries(VARIABLES).map(([name, row]) => `${name}=${row.default}`)).toEqual([
      "NEVERTWICE_ENABLED=true",
      "NEVERTWICE_STORE_URL=memory:",
      "NEVERTWICE_LEASE=30s",
      "NEVERTWICE_RETENTION=24h",
      "NEVERTWICE_MARK_RETENTION=60s",
      "NEVERTWICE_ON_UNAVAILABLE=refuse",
      "NEVERTWICE_NAMESPACE=default",
      "NEVERTWICE_ALLOW_LOCAL=false",
    ]);
  });

  test("has the same effect when its default is written out", async () => {
    const env = Object.fromEntries(Object.entries(VARIABLES).map(([name, row]) => [name, row.default]));
    expect((await started(env)).policy).toEqual(POLICY_DEFAULTS);
  });

  test("is read", async () => {
    const claims: string[] = [];
    const guard = await started(
      {
        NEVERTWICE_LEASE: "45s",
        NEVERTWICE_RETENTION: "7d",
        NEVERTWICE_MARK_RETENTION: "5m",
        NEVERTWICE_ON_UNAVAILABLE: "proceed",
        NEVERTWICE_NAMESPACE: "shop",
      },
      { wrapStore: (store) => watched(store, ({ parts }) => claims.push(parts.namespace)) },
    );
    expect(guard.policy).toMatchObject({
      leaseMs: 45_000,
      retentionMs: 604_800_000,
      markRetentionMs: 300_000,
      onUnavailable: "proceed",
    });
    expect(await guard.run(request, () => "done")).toBe("done");
    expect(await guard.run(request, () => "again")).toBe("done");
    expect(claims).toEqual(["shop", "shop"]);
  });

  test("counts as not set when it is empty, and surrounding white space is ignored", async () => {
    const guard = await started({
      NEVERTWICE_ENABLED: "",
      NEVERTWICE_STORE_URL: "  ",
      NEVERTWICE_RETENTION: "",
      NEVERTWICE_LEASE: " 45s\n",
    });
    expect(guard.policy).toEqual({ ...POLICY_DEFAULTS, leaseMs: 45_000 });
    expect(await guard.run(request, () => "done")).toBe("done");
    expect(await guard.run(request, () => "again")).toBe("done");
  });

  test.each([
    [
      "NEVERTWICE_ENABLED",
      "maybe",
      /NEVERTWICE_ENABLED is "maybe"; it must be one of true, 1, on, yes, false/,
    ],
    ["NEVERTWICE_ALLOW_LOCAL", "2", /NEVERTWICE_ALLOW_LOCAL is "2"/],
    ["NEVERTWICE_LEASE", "30", /NEVERTWICE_LEASE is "30"; .* e\.g\. "30s"/],
    ["NEVERTWICE_LEASE", "9ms", /NEVERTWICE_LEASE in milliseconds is 9; it must be a whole number from 10/],
    ["NEVERTWICE_RETENTION", "0s", /NEVERTWICE_RETENTION in milliseconds is 0/],
    ["NEVERTWICE_RETENTION", "1000y", /NEVERTWICE_RETENTION is "1000y"/],
    ["NEVERTWICE_MARK_RETENTION", "0ms", /NEVERTWICE_MARK_RETENTION in milliseconds is 0/],
    [
      "NEVERTWICE_ON_UNAVAILABLE",
      "open",
      /NEVERTWICE_ON_UNAVAILABLE is "open"; it must be "refuse" or "proceed"/,
    ],
    ["NEVERTWICE_NAMESPACE", "n".repeat(1_025), /NEVERTWICE_NAMESPACE has 1025 bytes/],
  ])("%s is refused by name when it is %.20s", async (name, value, message) => {
    await expect(guardFromEnv({ [name]: value })).rejects.toThrow(refusal(message));
  });
});

test("reads process.env unless another environment is passed", async () => {
  vi.stubEnv("NEVERTWICE_LEASE", "77s");
  vi.stubEnv("NEVERTWICE_STORE_URL", undefined);
  expect((await started(process.env)).policy.leaseMs).toBe(77_000);
  expect(windowsFromEnv().leaseMs).toBe(77_000);
  const guard = await guardFromEnv();
  expect(guard.policy.leaseMs).toBe(77_000);
  await guard.close();
});

describe("code and environment", () => {
  test("the environment overrides the code, and the code overrides the defaults", async () => {
    const options = {
      leaseMs: 1_000,
      retentionMs: 2_000,
      namespace: "code",
      onUnavailable: "proceed",
    } as const;
    const namespaces: string[] = [];
    const wrapStore = (store: Store) => watched(store, ({ parts }) => namespaces.push(parts.namespace));
    const env = { NEVERTWICE_LEASE: "9s", NEVERTWICE_NAMESPACE: "env" };
    const overruled = await started(env, { ...options, wrapStore });
    expect(overruled.policy).toEqual({
      ...POLICY_DEFAULTS,
      leaseMs: 9_000,
      retentionMs: 2_000,
      onUnavailable: "proceed",
    });
    await overruled.run(request, () => 1);
    await (await started({}, { ...options, wrapStore })).run(request, () => 1);
    expect(namespaces).toEqual(["env", "code"]);
  });

  test("the code alone sets what the environment does not set", async () => {
    const guard = await started({}, { waitMs: 5, onCompleted: "reject" });
    expect(guard.policy).toMatchObject({ waitMs: 5, onCompleted: "reject" });
  });

  test("an environment that contradicts the code is refused, and the opened store is closed", async () => {
    const opened: Store[] = [];
    const wrapStore = (store: Store) => {
      opened.push(store);
      vi.spyOn(store, "close");
      return { ...store };
    };
    await expect(
      guardFromEnv({ NEVERTWICE_ON_UNAVAILABLE: "proceed" }, { onLapsed: "hold", wrapStore }),
    ).rejects.toThrow(refusal(/contradict/));
    expect(opened.map((store) => vi.mocked(store.close).mock.calls.length)).toEqual([1]);
  });

  test.each<[what: string, options: unknown, message: RegExp]>([
    ["an option that does not exist", { lease: 1 }, /no option called "lease"/],
    ["a window that is not a number", { leaseMs: "30s" }, /leaseMs is "30s"/],
    ["a store", { store: {} }, /store comes from NEVERTWICE_STORE_URL/],
    ["migrate that is not a boolean", { migrate: "no" }, /migrate must be true or false/],
    ["wrapStore that is not a function", { wrapStore: {} }, /wrapStore is an object/],
    ["wrapStore that returns no store", { wrapStore: () => ({}) }, /store is not a store: it lacks claim/],
  ])("%s is refused, whether the guard is on or off", async (what, options, message) => {
    await expect(guardFromEnv({}, options as EnvGuardOptions)).rejects.toThrow(refusal(message));
    if (what === "wrapStore that returns no store") return;
    const off = guardFromEnv({ NEVERTWICE_ENABLED: "off" }, options as EnvGuardOptions);
    await expect(off).rejects.toThrow(refusal(message));
  });

  test("refuses options in place of the environment", async () => {
    const options = { leaseMs: 5 } as unknown as Environment;
    await expect(guardFromEnv(options)).rejects.toThrow(
      refusal(/leaseMs in the environment is not a string/),
    );
    await expect(guardFromEnv(null as unknown as Environment)).rejects.toThrow(refusal(/must be an object/));
  });
});

describe("in production", () => {
  const production = { NODE_ENV: "production" };

  test.each([
    [
      "no URL",
      {},
      /NEVERTWICE_STORE_URL is not set.*other processes.*Set it to.*NEVERTWICE_ALLOW_LOCAL=true/,
    ],
    ["an empty URL", { NEVERTWICE_STORE_URL: " " }, /NEVERTWICE_STORE_URL is not set/],
    ["memory:", { NEVERTWICE_STORE_URL: "memory:" }, /NEVERTWICE_STORE_URL is a memory: URL/],
    ["sqlite:", { NEVERTWICE_STORE_URL: "sqlite:./keys.db" }, /is a sqlite: URL.*other machines/],
    ["no permission", { NEVERTWICE_ALLOW_LOCAL: "no" }, /NEVERTWICE_STORE_URL is not set/],
  ])("refuses a local store: %s", async (_, env, message) => {
    await expect(guardFromEnv({ ...production, ...env })).rejects.toThrow(refusal(message));
  });

  test.each(["true", "1", "on", "YES", "True"])(
    "accepts a local store with NEVERTWICE_ALLOW_LOCAL=%s",
    async (text) => {
      const guard = await started({ ...production, NEVERTWICE_ALLOW_LOCAL: text });
      expect(await guard.run(request, () => "done")).toBe("done");
    },
  );

  test("accepts a local store outside production", async () => {
    const guard = await started({ NODE_ENV: "development" });
    expect(await guard.run(request, () => "done")).toBe("done");
  });
});

describe("the store's URL", () => {
  test.each([
    "hunter2",
    "user:hunter2@host",
    "http:hunter2",
    "mysql://root:hunter2@host:port/x",
    "mysql://root:hunter2@[host/x",
    "postgres://u:hunter2@host:port/x",
    "redis+cluster://u:hunter2@host/1/2",
    "ftp://u:hunter2@host/x",
  ])("is refused without being shown if it is invalid: %s", async (url) => {
    const error: unknown = await guardFromEnv({ NEVERTWICE_STORE_URL: url }).catch((thrown) => thrown);
    expect(error).toMatchObject({ code: "options-invalid" });
    expect(everythingIn(error)).not.toContain("hunter2");
  });
});

describe("closing", () => {
  test("closes the opened store once, after the work has ended", async () => {
    const order: string[] = [];
    const guard = await guardFromEnv(
      {},
      { wrapStore: (store) => watchedClose(store, () => order.push("closed")) },
    );
    let finish = () => {};
    let ran: Promise<string> | undefined;
    await new Promise<void>((begun) => {
      ran = guard.run(request, async () => {
        begun();
        await new Promise<void>((resolve) => {
          finish = resolve;
        });
        order.push("worked");
        return "done";
      });
    });
    const closing = guard.close();
    expect(guard.close()).toBe(closing);
    finish();
    expect(await ran).toBe("done");
    expect(await closing).toEqual([]);
    expect(order).toEqual(["worked", "closed"]);
    await expect(guard.run(request, () => 1)).rejects.toMatchObject({ code: "guard-closed" });
  });

  test("a guard made by with closes the store too, and both follow a retune", async () => {
    const close = vi.fn();
    const guard = await guardFromEnv({}, { wrapStore: (store) => watchedClose(store, close) });
    const rejecting = guard.with({ onCompleted: "reject" }).with({ waitMs: 5 });
    guard.retune({ leaseMs: 12_000 });
    expect([guard.policy.leaseMs, rejecting.policy.leaseMs]).toEqual([12_000, 12_000]);
    expect(rejecting.policy).toMatchObject({ onCompleted: "reject", waitMs: 5 });
    await rejecting.close();
    expect(close).toHaveBeenCalledTimes(1);
    await guard.close();
    expect(close).toHaveBeenCalledTimes(1);
  });
});

function watched(store: Store, onClaim: (claim: Parameters<Store["claim"]>[0]) => void): Store {
  return {
    ...store,
    claim(claim) {
      onClaim(claim);
      return store.claim(claim);
    },
  };
}

function watchedClose(store: Store, onClose: () => void): Store {
  return {
    ...store,
    close() {
      onClose();
      return store.close();
    },
  };
}

/** Everything that could be printed of an error: its text, its own properties, and those of its causes. */
function everythingIn(error: unknown): string {
  if (typeof error !== "object" || error === null) return String(error);
  const own = Object.getOwnPropertyNames(error).map((name) => (error as Record<string, unknown>)[name]);
  return [String(error), ...own.map(everythingIn)].join("\n");
}
