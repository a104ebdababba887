/**
 * Tests `transaction` of an HTTP attempt on a real Postgres, with Express and Fastify in processes that are killed: the write
 * and its step commit together, and the retry builds the response again. Needs the build.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
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
  "%s: a process killed at its %s leaves one row, and the retry gets the receipt of the first run",
  async ([framework, when], context) => {
    const { url, rows } = await onPostgres(context);
    const key = randomUUID();
    const first = await start(framework, url, when);
    const lost = first.post(key).catch(() => "no answer");
    await first.child.ended;
    expect(await lost).toBe("no answer");
    expect(await rows()).toBe(1);
    const second = await start(framework, url, "never");
    let answer: Response;
    // 409 until the lease of the killed process ends.
    for (answer = await second.post(key); answer.status === 409; answer = await second.post(key))
      await sleep(50);
    expect(answer.status).toBe(201);
    const body = await answer.text();
    expect(JSON.parse(body)).toEqual({ receipt: { by: first.child.process.pid }, attempt: 2 });
    const again = await second.post(key);
    expect([again.status, await again.text()]).toEqual([201, body]);
    expect(await rows()).toBe(1);
  },
);
