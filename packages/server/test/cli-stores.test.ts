/** Tests `nevertwice doctor`, `check-store` and `migrate`. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FOLDER, json, run } from "./cli-process.ts";

const file = (name: string) => `sqlite:${join(FOLDER, `${name}.db`)}`;

describe.concurrent("nevertwice doctor", { timeout: 120_000 }, () => {
  it("prints what claims survive, and fails if that is less than required", async () => {
    const { code, out } = await run(["doctor", file("doctor"), "--require", "power-loss"]);
    expect(code).toBe(0);
    expect(out).toContainEqual(expect.stringMatching(/^ {2}power-loss {3}yes/));
    expect((await run(["doctor", file("doctor"), "--require", "failover"])).code).toBe(1);
    expect(await json("doctor", "memory:")).toMatchObject({ rung: null, title: "memory" });
    expect((await run(["doctor", "memory:", "--require", "fire"])).code).toBe(2);
  });

  it.each(["doctor", "check-store", "migrate"])(
    "%s reports with code 3 that the store does not answer",
    async (command) => {
      const { code, err } = await run([command, "postgres://127.0.0.1:1/none"]);
      expect(code, err.join("\n")).toBe(3);
      expect(err.join("\n")).not.toContain("    at ");
    },
  );
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
