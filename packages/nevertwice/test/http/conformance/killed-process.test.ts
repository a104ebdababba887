/** Tests services in separate processes on one SQLite file, which are killed. Needs the build. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { scratchFolder } from "../../scratch-folder.ts";
import { REPLAYED } from "../replayed-header.ts";
import { type Received, send } from "./service.ts";

const CHILD = fileURLToPath(new URL("child.js", import.meta.url));
const BUILD = new URL("../../../dist/", import.meta.url).href;
/** Long enough for a service to start its store on a busy machine: work never starts on a lease that has ended. */
const LEASE_MS = 2_500;

async function shop() {
  const folder = await scratchFolder();
  const effects = join(folder, "effects");
  return {
    /** Starts a service on the records of this shop. */
    async start() {
      const args = [CHILD, BUILD, join(folder, "records.db"), effects, String(LEASE_MS)];
      const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
      onTestFinished(() => kill(child));
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      const next = async () => {
        const { value, done } = await lines.next();
        if (done) throw new Error("the service ended");
        return JSON.parse(value);
      };
      const port = (await next()) as number;
      return { next, kill: () => kill(child), post: (path: string) => send(port, { path, key: "k" }) };
    },
    effects: async () => (await readFile(effects, "utf8")).trim().split("\n").length,
  };
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

describe("a service that was killed", () => {
  test("IK-21 while its handler ran: after the lease the request runs once more, and not again", {
    timeout: 60_000,
  }, async () => {
    const { start, effects } = await shop();
    const first = await start();
    const lost = first.post("/hang").catch(() => "no answer");
    expect(await first.next()).toBe("ran");
    await first.kill();
    expect(await lost).toBe("no answer");
    const second = await start();
    let answer: Received;
    do {
      answer = await second.post("/");
      // 409 until the lease ends; 503 where the machine is too busy for the store to answer in time.
      expect([201, 409, 503]).toContain(answer.status);
      if (answer.status !== 201) await sleep(100);
    } while (answer.status !== 201);
    const retries = await Promise.all([second.post("/"), second.post("/"), second.post("/hang")]);
    expect(retries.map(({ status, text }) => [status, text])).toEqual(retries.map(() => [201, answer.text]));
    expect(await effects()).toBe(2);
  });

  test("EX-08 after it had answered: its successor replays the answer", { timeout: 60_000 }, async () => {
    const { start, effects } = await shop();
    const first = await start();
    const answer = await first.post("/");
    expect(answer.status).toBe(201);
    await first.kill();
    const second = await start();
    const again = await second.post("/");
    expect([again.status, again.text, again.header(REPLAYED)]).toEqual([201, answer.text, "true"]);
    expect(await effects()).toBe(1);
  });
});
