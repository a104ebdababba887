/** Tests `nevertwice keys resolve` without a key: the counts that it prints, a dry run, and what is missing or too much. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClaims } from "nevertwice/claims";
import { openStore } from "nevertwice/stores/open";
import { afterAll, expect, test } from "vitest";
import { runHere } from "./cli-in-process.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "nevertwice-bulk-"));
const STORE = `sqlite:${join(FOLDER, "keys.db")}`;

afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

/** Leaves keys with an unknown outcome. */
async function hold(...keys: readonly (readonly [operation: string, key: string])[]): Promise<void> {
  const store = await openStore(STORE);
  const claims = createClaims({ store, namespace: "default" });
  for (const [operation, key] of keys) {
    const claimed = await claims.claim({ operation, scope: "ada", key });
    if (claimed.status !== "new") throw new Error("the scene is not set");
    await claims.abandon({ id: claimed.id, token: claimed.token, as: "unknown" });
  }
  await claims.close();
  await store.close();
}

test("keys of one operation from before a time are resolved, after a dry run", async () => {
  await hold(["charge", "a"], ["charge", "b"], ["charge", "c"], ["refund", "a"]);
  const resolve = (before: string, ...more: readonly string[]) =>
    runHere(
      ...["keys", "resolve", "--store", STORE, "--operation", "charge", "--as", "not-done"],
      ...["--before", before, ...more],
    );
  const none = ["done: 0 keys were resolved as not-done, 0 had changed and were left alone."];
  expect(await resolve("0s", "--dry-run")).toMatchObject({
    code: 0,
    out: ["done: 3 keys would be resolved as not-done."],
  });
  expect((await resolve("1h")).out).toEqual(none);
  expect((await resolve("2020-01-01T00:00Z")).out).toEqual(none);
  const { out } = await resolve("0s", "--json");
  expect(JSON.parse(out.join("")).data).toEqual({ matched: 3, resolved: 3, changed: 0, dryRun: false });
  expect((await resolve("0s")).out).toEqual(none);
  const left = await runHere("keys", "list", "--store", STORE, "--state", "lapsed", "--json");
  expect(JSON.parse(left.out.join("")).data.records).toMatchObject([{ operation: "refund", key: "a" }]);
});

const BULK = ["--as", "done", "--operation", "charge", "--before", "1h"];

test.each([
  ["no operation", ["--as", "done", "--before", "1h"], "the argument KEY is missing; for many keys, give"],
  ["no time", ["--as", "done", "--operation", "charge"], "the argument KEY is missing; for many keys, give"],
  ["a time that is none", [...BULK, "--before", "soon"], "--before must be a time such as"],
  ["failed", [...BULK, "--as", "failed"], "--as must be done or not-done for many keys"],
  ["a value", [...BULK, "--value", "1"], "--value is for one key"],
  ["a fence", [...BULK, "--fence", "1"], "--fence is for one key"],
  ["a key", ["k", ...BULK], "--before and --dry-run are for many keys"],
])("%s is refused", async (_, words, problem) => {
  const { code, err } = await runHere("keys", "resolve", "--store", STORE, ...words);
  expect([code, err.join("\n")]).toEqual([2, expect.stringContaining(problem)]);
});
