/** Tests how readers share the commit that flushes what they read, on a schedule that a real server meets only by chance. */
import { expect, test } from "vitest";
import { createFlushedReads } from "../../../src/stores/mysql/flushed-reads.ts";
import type { StatementRunner } from "../../../src/stores/mysql/statement-runner.ts";
import { deferred } from "../../deferred.ts";

const NOW = 1_000_000;
const read = (id: string) => ({ record: { id, completedAt: NOW }, now: NOW });

/** A runner whose commits end as the test says, one after another. */
function runnerOf(...ends: (() => Promise<{ affectedRows: number }>)[]) {
  const sent: string[] = [];
  const runner = {
    connections: 1,
    change(sql: string) {
      sent.push(sql);
      return (ends.shift() ?? (async () => ({ affectedRows: 1 })))();
    },
  };
  return { sent, reads: createFlushedReads(runner as unknown as StatementRunner) };
}

test("a deadlock with another statement means that the record must be read again", async () => {
  const deadlock = Object.assign(new Error("Deadlock found"), { errno: 1213, sqlState: "40001" });
  const { reads } = runnerOf(() => Promise.reject(deadlock));
  expect(await reads.waitUntilFlushed(read("a"), undefined)).toBe(false);
  expect(await reads.waitUntilFlushed(read("a"), undefined)).toBe(true);
});

test("a reader does not rely on the commit for another record that is gone", async () => {
  const { promise: first, resolve: endFirst } = deferred<{ affectedRows: number }>();
  const { promise: second, resolve: endSecond } = deferred<{ affectedRows: number }>();
  const { sent, reads } = runnerOf(
    () => first,
    () => second,
  );
  const [a, b, c] = ["a", "b", "c"].map((id) => reads.waitUntilFlushed(read(id), undefined));
  endFirst({ affectedRows: 1 });
  expect(await a).toBe(true);
  // The readers of b and c share the second commit, which finds b gone.
  endSecond({ affectedRows: 0 });
  expect(await b).toBe(false);
  expect(await c).toBe(true);
  expect(sent).toHaveLength(3);
});
