/** Tests `nevertwice doctor`, `check-store`, `migrate` and `purge`. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createGuard } from "nevertwice";
import { sqliteStore } from "nevertwice/stores/sqlite";
import { describe, expect, it } from "vitest";
import { FOLDER, json, run } from "./cli-process.ts";

const file = (name: string) => `sqlite:${join(FOLDER, `${name}.db`)}`;

describe.concurrent("nevertwice doctor", { timeout: 120_000 }, () => {
  it("prints what claims survive, and fails if that is less than required", async () => {
    await run(["migrate", file("doctor")]);
    const { code, out } = await run(["doctor", file("doctor"), "--require", "power-loss"]);
    expect(code).toBe(0);
    expect(out.at(-1)).toBe(
      "passed: power-loss is required, and a claim survives power-loss and all milder faults",
    );
    expect(out).toContainEqual(expect.stringMatching(/^ {2}power-loss {3}yes/));
    const failover = await run(["doctor", file("doctor"), "--require", "failover"]);
    expect(failover.code).toBe(1);
    expect(failover.out.at(-1)).toMatch(/^not passed: failover is required, /);
    expect(await json("doctor", "memory:")).toMatchObject({ rung: null, title: "memory" });
    expect((await run(["doctor", "memory:", "--require", "fire"])).code).toBe(2);
  });

  it.each(["doctor", "check-store", "migrate", "purge"])(
    "%s reports with code 3 that the store does not answer",
    async (command) => {
      const { code, err } = await run([command, "postgres://127.0.0.1:1/none"]);
      expect(code, err.join("\n")).toBe(3);
      expect(err.join("\n")).not.toContain("    at ");
    },
  );
});

describe.concurrent("nevertwice doctor on etcd", { timeout: 120_000 }, () => {
  it("reports with code 3 that no member answers, and shows no password", async () => {
    const { code, err } = await run(["doctor", "etcd://ada:secret@127.0.0.1:1,127.0.0.1:2/shop"]);
    expect(code, err.join("\n")).toBe(3);
    expect(err.join("\n")).not.toMatch(/secret| {4}at /);
  });
});

describe.concurrent("nevertwice purge", { timeout: 120_000 }, () => {
  /** A file with records, of which one has not expired. */
  async function expired(name: string, count: number): Promise<string> {
    const path = join(FOLDER, `${name}.db`);
    const store = sqliteStore({ file: path });
    const guard = createGuard({
      store,
      purgeEveryMs: 0,
      retentionMs: 1,
      leaseMs: 300_000,
      storeTimeoutMs: 90_000,
    });
    await guard.run({ operation: "charge", key: "kept", retentionMs: 3_600_000 }, () => 1);
    const keys = Array.from({ length: count }, (_, i) => String(i));
    await Promise.all(keys.map((key) => guard.run({ operation: "charge", key }, () => 1)));
    await expect
      .poll(async () => (await guard.read({ operation: "charge", key: keys.at(-1) ?? "" }))?.state)
      .toBeUndefined();
    await guard.close();
    await store.close();
    return path;
  }

  it("removes every expired record, and no other", async () => {
    const path = await expired("purge", 1_200);
    const { code, out, err } = await run(["purge", `sqlite:${path}`]);
    expect([code, out, err]).toEqual([0, ["removed 1200 expired records; none is left"], []]);
    expect(await json("purge", `sqlite:${path}`)).toEqual({
      store: `sqlite:${path}`,
      removed: 0,
      complete: true,
    });
    const store = sqliteStore({ file: path });
    const guard = createGuard({ store, purgeEveryMs: 0 });
    expect((await guard.read({ operation: "charge", key: "kept" }))?.state).toBe("completed");
    await store.close();
  });

  it("stops after its time, and the next one continues", async () => {
    const path = await expired("purge-for", 1_200);
    const { code, out } = await run(["purge", `sqlite:${path}`, "--for", "1ms"]);
    expect([code, out]).toEqual([0, ["removed 500 expired records in 1ms; more are left, run it again"]]);
    expect(await json("purge", `sqlite:${path}`)).toMatchObject({ removed: 700, complete: true });
  });

  it("creates no file, and refuses a text that is not a duration", async () => {
    const missing = await run(["purge", file("mistyped")]);
    expect(missing.code).toBe(2);
    expect(missing.err.join()).toContain("there is no SQLite file");
    expect(existsSync(join(FOLDER, "mistyped.db"))).toBe(false);
    expect((await run(["purge", "memory:", "--for", "soon"])).code).toBe(2);
    expect((await run(["purge"])).code).toBe(2);
  });
});

describe.concurrent("nevertwice check-store", { timeout: 120_000 }, () => {
  it("checks every guarantee of a live store", async () => {
    const { code, out, err } = await run(["check-store", "memory:"]);
    expect(code, [...out, ...err].join("\n")).toBe(0);
    expect(out).toContainEqual(expect.stringMatching(/^ {2}one-owner +kept +\d+ kept$/));
    expect(out.at(-1)).toMatch(/^\d{3} cases: every guarantee is kept$/);
    const { cases, kept } = await json<{ readonly kept: boolean; readonly cases: readonly unknown[] }>(
      "check-store",
      file("check"),
    );
    expect(kept).toBe(true);
    expect(cases).toContainEqual({
      guarantee: "one-owner",
      name: expect.any(String),
      status: "kept",
    });
  });
});

describe.concurrent("nevertwice migrate", { timeout: 120_000 }, () => {
  it("creates the tables, and may be run again", async () => {
    expect(await json("migrate", file("migrate"))).toEqual({
      store: file("migrate"),
      tables: ["claims", "holds", "outbox"],
    });
    expect((await run(["migrate", file("migrate"), "--claims-only"])).out).toEqual([
      `ready ${file("migrate")}: tables for claims`,
    ]);
  });

  it("refuses a store that has no tables, and shows no password", async () => {
    const { code, err } = await run(["migrate", "redis://ada:secret@localhost"]);
    expect(code).toBe(2);
    expect(err[0]).toContain("has no tables: use a sqlite:, postgres:// or mysql:// URL.");
    expect(err.join("\n")).not.toContain("secret");
  });
});
