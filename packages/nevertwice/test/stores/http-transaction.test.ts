/**
 * Tests `transaction` of an HTTP attempt on a real Postgres, with Express and Fastify in processes that are killed: the write
 * and its step commit together, and the retry builds the response again. Needs the build.
 */
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import type pg from "pg";
import { expect, expectTypeOf, onTestFinished, test } from "vitest";
import { attemptOf, withIdempotency } from "../../src/http/fetch.ts";
import { poolOf, query } from "./postgres/database.ts";
import { startProcess } from "./sqlite/child-process.ts";
import { onPostgres } from "./transaction/scene.ts";

const CHILD = fileURLToPath(new URL("transaction/http-child.js", import.meta.url));

async function start(framework: string, url: string, when: string) {
  const child = startProcess([CHILD, framework, url, when]);
  const port = await child.next<number>();
  const post = (key: string) =>
    fetch(`http://127.0.0.1:${port}/pay`, { method: "POST", headers: { "idempotency-key": key } });
  return { child, post };
}

test.for([
  ["express", "commit"],
  ["fastify", "respond"],
] as const)(
  "CC-10 %s: a process killed at its %s leaves one row, and the retry gets the receipt of the first run",
  async ([framework, when], context) => {
    const { url, rows } = await onPostgres(context);
    const key = randomUUID();
    const first = await start(framework, url, when);
    const lost = first.post(key).catch(() => "no answer");
    await first.child.ended;
    expect(await lost).toBe("no answer");
    expect(await rows()).toBe(1);
    const second = await start(framework, url, "never");
    expect((await second.post(key)).status).toBe(409);
    // The lease of the killed process ends.
    await query(url, "UPDATE nevertwice_records SET lease_ends_at = claimed_at + 1");
    const answer = await second.post(key);
    expect(answer.status).toBe(201);
    const body = await answer.text();
    expect(JSON.parse(body)).toEqual({ receipt: { by: first.child.process.pid }, attempt: 2 });
    const again = await second.post(key);
    expect([again.status, await again.text()]).toEqual([201, body]);
    expect(await rows()).toBe(1);
  },
);

test("CC-09 a transaction that is rolled back leaves neither row nor step, and the retry runs the work again", async (context) => {
  const { url, guard, rows } = await onPostgres(context);
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  let runs = 0;
  const handle = withIdempotency(guard, { scope: "anyone" }, async (request) => {
    const receipt = await attemptOf(request)?.transaction("pay", pool, async (tx) => {
      expectTypeOf(tx).toEqualTypeOf<pg.PoolClient>();
      await tx.query("INSERT INTO ledger VALUES ('x')");
      if (++runs === 1) throw new Error("card declined");
      return { run: runs };
    });
    return Response.json(receipt, { status: 201 });
  });
  const headers = { "idempotency-key": randomUUID() };
  const post = () => handle(new Request("http://shop.test/pay", { method: "POST", headers }));
  await expect(post()).rejects.toThrow("card declined");
  expect(await rows()).toBe(0);
  const answers = [await post(), await post()];
  expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual([{ run: 2 }, { run: 2 }]);
  expect([runs, await rows()]).toEqual([2, 1]);
});
