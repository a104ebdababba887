/** Tests that the Python code of docs/server-api.md charges once, although its process is killed. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";
import { startServer } from "./api-client.ts";

const PAGE = new URL("../../../docs/server-api.md", import.meta.url);

const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython)
  console.warn("SKIPPED: python3 is missing, so the Python code of docs/server-api.md is not tested.");

/**
 * A payment provider that knows its idempotency keys: one file for each charge. Where `stop` says, the process prints a line
 * and waits to be killed.
 */
const SHOP = `
import os, sys
from page import charge_once

stop, folder = sys.argv[1], sys.argv[2]

def pause(place):
    if stop == place:
        print("at", place, flush=True)
        sys.stdin.read()

def charge(amount, idempotency_key):
    path = os.path.join(folder, idempotency_key)
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.write(f"receipt for {amount}")
    pause("charged")
    with open(path) as file:
        return {"receipt": file.read()}

try:
    receipt = charge_once("order-17", 4200, charge)
    pause("completed")
    print(receipt["receipt"], flush=True)
except RuntimeError as error:
    print(error, flush=True)
`;

async function createShop() {
  const server = await startServer({ listen: { host: "127.0.0.1", port: 0 }, lease: 2_000 });
  const { url } = await server.listen();
  const home = await mkdtemp(join(tmpdir(), "nevertwice-python-"));
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  const [, code = ""] = /^```python\n(.*?)^```$/ms.exec(await readFile(PAGE, "utf8")) ?? [];
  await writeFile(join(home, "page.py"), code.replaceAll("http://127.0.0.1:4747", url));
  await writeFile(join(home, "shop.py"), SHOP);
  const charges = await mkdtemp(join(home, "charges-"));
  const start = (stop = "nowhere") => {
    const child = spawn("python3", ["shop.py", stop, charges], {
      cwd: home,
      stdio: ["pipe", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    return child;
  };
  return {
    start,
    /** What a run prints that is not killed. */
    retry: () => firstLine(start()),
    effects: async () => (await readdir(charges)).length,
    /** The attempts at the key. */
    async attempts() {
      const { records } = (await (await fetch(`${url}/v1/keys?key=order-17`)).json()) as {
        readonly records: readonly { readonly number: number }[];
      };
      return records[0]?.number;
    },
  };
}

async function firstLine({ stdout }: ChildProcess): Promise<string> {
  if (stdout === null) throw new Error("the process has no output");
  // A line may come in several chunks.
  for await (const line of createInterface({ input: stdout })) return line;
  throw new Error("the process printed no line");
}

async function killAt(place: string, child: ChildProcess): Promise<void> {
  expect(await firstLine(child)).toBe(`at ${place}`);
  child.kill("SIGKILL");
  const [, signal] = await once(child, "close");
  expect(signal).toBe("SIGKILL");
}

/** The machine may be slow. */
const PATIENCE = { timeout: 60_000, interval: 200 };

describe.skipIf(!hasPython)("the Python code of docs/server-api.md", { timeout: 120_000 }, () => {
  test("charges once although its process is killed after the effect, and then replays", async () => {
    const shop = await createShop();
    await killAt("charged", shop.start("charged"));
    expect(await shop.effects()).toBe(1);
    // Until the lease has ended, a retry is refused. Then it gets the same derived key.
    const answers = new Set<string>();
    await expect
      .poll(async () => {
        const answer = await shop.retry();
        answers.add(answer);
        return answer;
      }, PATIENCE)
      .toBe("receipt for 4200");
    expect([...answers].every((answer) => answer === "pending" || answer === "receipt for 4200")).toBe(true);
    expect([await shop.effects(), await shop.attempts()]).toEqual([1, 2]);
    expect(await shop.retry()).toBe("receipt for 4200");
    expect([await shop.effects(), await shop.attempts()]).toEqual([1, 2]);
  });

  test("replays the receipt of a process that was killed after the completion", async () => {
    const shop = await createShop();
    await killAt("completed", shop.start("completed"));
    expect(await shop.retry()).toBe("receipt for 4200");
    expect([await shop.effects(), await shop.attempts()]).toEqual([1, 1]);
  });
});
