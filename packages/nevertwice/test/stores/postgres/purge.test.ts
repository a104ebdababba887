/** Tests where a purge on Postgres begins. The server is a function here: an old transaction would have to keep millions of rows. */
import { expect, test } from "vitest";
import type { RunStatement } from "../../../src/stores/postgres/client.ts";
import { createPurge } from "../../../src/stores/postgres/purge.ts";

const STATEMENT = { name: "purge", text: "" };

/** Answers each purge with (looked at, removed, the time of the last one), or fails; notes where each began. */
function serverOf(answers: readonly (readonly [string, string, string | null] | "too slow")[]) {
  const starts: (string | undefined)[] = [];
  const run: RunStatement = async (_, parameters) => {
    const answer = answers[starts.length];
    starts.push(parameters[1]);
    if (answer === undefined || answer === "too slow") throw new Error("canceling statement due to timeout");
    return [answer];
  };
  return { starts, purge: createPurge(run, STATEMENT, async () => ({ more: false })) };
}

test("a purge continues where the last one ended, and at the end begins once more with the earliest record", async () => {
  const { starts, purge } = serverOf([
    ["2", "2", "10"],
    ["1", "1", "20"],
    ["1", "1", "5"],
    ["0", "0", null],
  ]);
  expect(await purge(2)).toEqual({ removed: 2, more: true });
  expect(await purge(3)).toEqual({ removed: 2, more: false });
  expect(await purge(3)).toEqual({ removed: 0, more: false });
  expect(starts).toEqual(["0", "10", "0", "0"]);
});

test("a purge that cannot begin again in time counts what it removed, and the next one continues there", async () => {
  const { starts, purge } = serverOf([["2", "2", "10"], ["1", "1", "20"], "too slow", ["2", "2", "30"]]);
  await purge(2);
  expect(await purge(2)).toEqual({ removed: 1, more: false });
  expect(await purge(2)).toEqual({ removed: 2, more: true });
  expect(starts).toEqual(["0", "10", "0", "10"]);
});
