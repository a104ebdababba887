/** Tests NEVERTWICE_ENABLED=false: every function runs its work as if it were unguarded, and reports it. */
import { describe, expect, onTestFinished, test } from "vitest";
import { type EnvGuardOptions, guardFromEnv } from "../../src/env/index.ts";
import { offStore } from "../../src/env/off-store.ts";
import type { Guard } from "../../src/functions/guard.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import type { GuardEvent } from "../../src/index.ts";
import { REPLAYED } from "../http/replayed-header.ts";

const warnings: Error[] = [];
process.on("warning", (warning) => warnings.push(warning));

const OFF = { NEVERTWICE_ENABLED: "false" };
const request = { operation: "charge", scope: "customer-7", key: "order-1", fingerprint: { amount: 1 } };

async function off(
  options: EnvGuardOptions = {},
  env: Readonly<Record<string, string>> = {},
): Promise<Guard> {
  const guard = await guardFromEnv({ ...OFF, ...env }, options);
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

test("prints one warning per process, however many guards are off", async () => {
  await off();
  await off();
  await new Promise<void>((resolve) => setImmediate(resolve));
  expect(warnings.map(({ name, message }) => `${name}: ${message}`)).toEqual([
    "NevertwiceWarning: NEVERTWICE_ENABLED is off: nothing is checked or stored, and every call runs its work.",
  ]);
  expect(warnings).toMatchObject([{ code: "NEVERTWICE_OFF" }]);
});

test.each(["false", "0", "off", "no", "OFF", " False\n"])(
  "NEVERTWICE_ENABLED=%j switches the guard off",
  async (text) => {
    const guard = await off({}, { NEVERTWICE_ENABLED: text });
    expect([await guard.run(request, () => 1), await guard.run(request, () => 2)]).toEqual([1, 2]);
  },
);

describe("off", () => {
  test("every call runs, whatever ran before or concurrently, and there is no conflict", async () => {
    const guard = await off();
    let runs = 0;
    const work = async () => ++runs;
    const together = await Promise.all(Array.from({ length: 20 }, () => guard.run(request, work)));
    expect(new Set(together).size).toBe(20);
    expect(await guard.tryRun({ ...request, fingerprint: { amount: 2 } }, work)).toEqual({
      status: "ran",
      value: 21,
      recorded: true,
    });
  });

  test("throws the error of the work, remembered or not, and runs the work again", async () => {
    const guard = await off({ onFailure: "remember" });
    const failure = new Error("declined");
    await expect(guard.run(request, () => Promise.reject(failure))).rejects.toThrow("declined");
    expect(await guard.run(request, () => "paid")).toBe("paid");
    const unknown = guard.with({ onFailure: "unknown", onLapsed: "hold" });
    await expect(unknown.run(request, () => Promise.reject(failure))).rejects.toBe(failure);
    expect(await unknown.run(request, () => "paid")).toBe("paid");
  });

  test("a wrapped function runs on every call", async () => {
    const double = (await off()).wrap((n: number) => n * 2, { operation: "double", key: () => "one" });
    expect([await double(1), await double(2)]).toEqual([2, 4]);
  });

  test("nothing was seen, every mark is the first, and every claim is granted", async () => {
    const guard = await off();
    const { fingerprint: _, ...subject } = request;
    expect([await guard.mark(subject), await guard.mark(subject)]).toEqual([true, true]);
    expect(await guard.seen(subject)).toBe(false);
    expect(await guard.release(subject)).toBe(false);
    const claims = await guard.claimBatch([subject, subject]);
    expect(claims.map(({ status }) => status)).toEqual(["claimed", "claimed"]);
    for (const claim of claims) if (claim.status === "claimed") await claim.complete("done");
  });

  test("exclusive locks nothing", async () => {
    const guard = await off();
    const nested = guard.exclusive("nightly", () => guard.exclusive("nightly", () => "both"));
    expect(await nested).toBe("both");
  });

  test("the work receives the usual attempt, and fences grow as they do in the stores", async () => {
    const guard = await off();
    const before = Date.now() * 1_000;
    const fences: number[] = [];
    for (let run = 0; run < 3; run++)
      await guard.run(request, ({ fence, number, signal, deriveKey }) => {
        expect({ number, isAborted: signal.aborted, length: deriveKey("psp").length }).toEqual({
          number: 1,
          isAborted: false,
          length: 43,
        });
        fences.push(fence);
      });
    expect(fences[0]).toBeGreaterThanOrEqual(before);
    expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
  });

  test("no attempt ever loses its lease", async () => {
    expect(await offStore().renew({ id: "a", token: "t", leaseMs: 10 })).toBe(true);
  });

  test("HTTP answers every request anew, and still requires a valid key", async () => {
    const guard = await off();
    let orders = 0;
    const handler = withIdempotency(guard, { scope: "anyone", required: true }, async () => {
      orders++;
      return Response.json({ orders }, { status: 201 });
    });
    const post = (headers: Record<string, string>) =>
      handler(new Request("http://shop.test/orders", { method: "POST", headers, body: "{}" }));
    const answers = [await post({ "idempotency-key": '"a"' }), await post({ "idempotency-key": '"a"' })];
    expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual([{ orders: 1 }, { orders: 2 }]);
    expect(answers.map((answer) => answer.headers.get(REPLAYED))).toEqual([null, null]);
    expect((await post({})).status).toBe(400);
  });

  test("requests are checked as usual", async () => {
    const guard = await off();
    const run = (wrong: object) => guard.run({ ...request, ...wrong }, () => 1);
    await expect(run({ key: "" })).rejects.toMatchObject({ code: "key-missing" });
    await expect(run({ key: "k".repeat(2_000) })).rejects.toMatchObject({ code: "key-invalid" });
    await expect(run({ scope: "" })).rejects.toMatchObject({ code: "scope-missing" });
    await expect(run({ waitMs: -1 })).rejects.toMatchObject({ code: "options-invalid" });
    await expect(run({ fingerprint: () => 1 })).rejects.toMatchObject({ code: "fingerprint-invalid" });
  });

  test("operator calls find nothing, and none fails", async () => {
    const guard = await off();
    await guard.run(request, () => 1);
    const { operation, scope, key } = request;
    const subject = { operation, scope, key };
    await guard.ready();
    expect(await guard.read(subject)).toBeUndefined();
    expect(await guard.listUnknown()).toEqual({ records: [], next: undefined, order: "none" });
    expect(await guard.undecided()).toEqual({ count: 0, isComplete: true });
    expect(await guard.forget(subject)).toBe(false);
    expect(await guard.forget({ scope })).toEqual({ forgotten: 0, inFlight: 0 });
    expect(await guard.reopen(subject)).toBe(false);
    expect(await guard.resolve({ ...subject, fence: 1 }, { status: "not-done" })).toBe(false);
  });

  test("no store is opened: an unreachable store, or a local one in production, does no harm", async () => {
    const wrapStore = () => {
      throw new Error("opened");
    };
    for (const url of ["postgres://nobody@127.0.0.1:1/none", "nonsense", "memory:"]) {
      const env = { NODE_ENV: "production", NEVERTWICE_STORE_URL: url };
      expect(await (await off({ wrapStore }, env)).run(request, () => "ran")).toBe("ran");
    }
  });

  test("a requirement is not checked without a store, but must be a known one", async () => {
    const guard = await off({ require: "failover" });
    await guard.ready();
    expect(await guard.run(request, () => "ran")).toBe("ran");
    await expect(off({ require: "hope" as "failover" })).rejects.toMatchObject({ code: "options-invalid" });
  });

  test("variables and options are checked as usual", async () => {
    await expect(off({}, { NEVERTWICE_LEASE: "30" })).rejects.toThrow(/NEVERTWICE_LEASE/);
    await expect(off({}, { NEVERTWICE_ALLOW_LOCAL: "maybe" })).rejects.toThrow(/NEVERTWICE_ALLOW_LOCAL/);
    await expect(off({ observer: {} as () => void })).rejects.toThrow(/observer is an object/);
    expect((await off({ waitMs: 5 }, { NEVERTWICE_LEASE: "9s" })).policy).toMatchObject({
      leaseMs: 9_000,
      waitMs: 5,
    });
  });

  test("a closed guard refuses calls", async () => {
    const guard = await off();
    await guard.close();
    await expect(guard.run(request, () => 1)).rejects.toMatchObject({ code: "guard-closed" });
  });
});

describe("an observer of a guard that is off", () => {
  test("receives for each run that it proceeded, never that it was claimed", async () => {
    const [one, other]: [GuardEvent[], GuardEvent[]] = [[], []];
    const guard = await off({ observer: [(event) => one.push(event), (event) => other.push(event)] });
    await guard.run(request, () => 1);
    await guard.run(request, () => 1);
    expect(one.map(({ kind }) => kind)).toEqual(["proceeded", "completed", "proceeded", "completed"]);
    expect(one[0]).toEqual({
      kind: "proceeded",
      operation: "charge",
      keyHash: expect.stringMatching(/^[0-9a-f]{16}$/),
    });
    expect(other).toEqual(one);
    await guard.run(request, () => Promise.reject(new Error("no"))).catch(() => {});
    expect(one.slice(4).map(({ kind }) => kind)).toEqual(["proceeded", "abandoned"]);
  });

  test("still wraps each call", async () => {
    const statuses: string[] = [];
    const observer = Object.assign(() => {}, {
      statuses,
      async around<T extends { readonly status: string }>(_: unknown, call: () => Promise<T>) {
        this.statuses.push((await call()).status);
      },
    });
    const guard = await off({ observer });
    await guard.run(request, () => 1);
    await new Promise<void>((resolve) => setImmediate(resolve));
    expect(statuses).toEqual(["ran"]);
  });
});
