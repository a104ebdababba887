/** Tests several processes on one SQLite file, and processes that end. Needs the build. */
import { createHash } from "node:crypto";
import { chmod, cp, mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { sqliteStore } from "../../dist/stores/sqlite.js";
import { type Child, startProcess } from "./sqlite/child-process.ts";
import { connectionsBeside, scratchFiles } from "./sqlite/scratch.ts";

const fileNamed = scratchFiles();
const connect = connectionsBeside();
const CHILD = fileURLToPath(new URL("sqlite/child.js", import.meta.url));
const BUILD = new URL("../../dist/", import.meta.url).href;

function start(act: string, file: string, ...rest: readonly string[]): Child {
  return startOn(BUILD, act, file, ...rest);
}

function startOn(build: string, act: string, file: string, ...rest: readonly string[]): Child {
  return startBy([], [CHILD, act, build, file, ...rest]);
}

/** `by`: the command that starts Node, if it is not started directly. */
function startBy(
  by: readonly string[],
  args: readonly [child: string, act: string, build: string, file: string, ...rest: string[]],
): Child {
  // A folder in which no driver is installed.
  return startProcess(args, dirname(args[3]), by);
}

describe("two processes on one file", () => {
  test("give each key one owner and each claim its own fence when both claim the same keys at once", async () => {
    const file = fileNamed();
    const children = ["left", "right"].map((who) => start("contend", file, who, "300"));
    for (const child of children) expect(await child.next()).toBe("ready");
    for (const child of children) child.process.stdin?.write("go\n");
    const owned = await Promise.all(children.map((child) => child.next<Record<string, number>>()));
    const keys = owned.flatMap((each) => Object.keys(each));
    const fences = owned.flatMap((each) => Object.values(each));
    expect(keys).toHaveLength(300);
    expect(new Set(keys).size).toBe(300);
    expect(new Set(fences).size).toBe(300);
    const outcomes = connect(file).prepare(
      "SELECT outcome, count(*) AS keys FROM nevertwice_records GROUP BY 1",
    );
    expect(outcomes.all().reduce((sum: number, { keys: count }: { keys: number }) => sum + count, 0)).toBe(
      300,
    );
    for (const child of children) expect(await child.ended).toEqual({ code: 0, complaint: "" });
  });

  test("wake each other's waiters", async () => {
    const file = fileNamed();
    const id = createHash("sha256").update("owned").digest("hex");
    const delays: number[] = [];
    // Repeated, because a busy machine may delay one or two of the wake-ups.
    for (let round = 0; round < 5 && !delays.some((ms) => ms < 1_000); round++) {
      const own = `${file}-${round}`;
      const child = start("own", own);
      expect(await child.next()).toBe("ready");
      const store = sqliteStore({ file: own });
      expect(await store.read(id)).toMatchObject({ state: "pending" });
      const woken = new Promise<number>((resolve) => {
        void store.watch?.({ id, wake: () => resolve(Date.now()) });
      });
      child.process.stdin?.write("go\n");
      const doneAt = await child.next<number>();
      delays.push((await woken) - doneAt);
      expect(await store.read(id)).toMatchObject({ state: "completed" });
      await store.close();
      await child.ended;
    }
    expect(Math.min(...delays)).toBeLessThan(1_000);
  });
});

describe("a process", () => {
  test("exits by itself with a store that was never closed", async () => {
    const file = fileNamed();
    const child = start("leave", file);
    expect(await child.next()).toMatchObject({ status: "new" });
    expect(await child.ended).toEqual({ code: 0, complaint: "" });
  });

  test.each([
    ["exits by itself", "", 0],
    ["exits with its own code", "exit", 7],
  ])("%s after it read replays in its own thread", async (_, how, code) => {
    const child = start("replay", fileNamed(), how);
    expect(await child.next()).toEqual({ status: "completed", outcome: "done" });
    expect(await child.ended).toEqual({ code, complaint: "" });
  });

  test("stays alive until the calls that it awaits are answered", async () => {
    const child = start("await", fileNamed());
    expect(await child.next()).toBe(2);
    expect(await child.ended).toEqual({ code: 0, complaint: "" });
  });

  test("exits with its own code in the middle of its claims, and leaves an undamaged file", async () => {
    const file = fileNamed();
    for (let round = 0; round < 8; round++) {
      const child = start("exit", file, String(3 * round));
      expect(await child.ended).toEqual({ code: 7, complaint: "" });
    }
    expect(connect(file).prepare("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  });
});

/**
 * Root may write any file, so root drops that capability and stays root: another account could not read a clone of the
 * repository that belongs to root.
 */
const WITHOUT_PRIVILEGES =
  process.getuid?.() === 0 ? ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"] : [];

describe("a file that this process may not use", () => {
  test("is refused as read-only", async () => {
    const folder = fileNamed("read-only");
    await mkdir(folder);
    const file = `${folder}/x.db`;
    connect(file).exec("CREATE TABLE theirs (x)");
    await chmod(folder, 0o555);
    await chmod(file, 0o444);
    expect(await startBy(WITHOUT_PRIVILEGES, [CHILD, "claim", BUILD, file]).next()).toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("read-only"),
    });
  });
});

describe("without a driver", () => {
  test("a runtime without built-in SQLite gets an error that says what to install", async () => {
    const folder = fileNamed("bare");
    await cp(new URL(BUILD), folder, { recursive: true });
    await writeFile(
      `${folder}/package.json`,
      JSON.stringify({ type: "module", imports: { "#platform": "./platform/node.js" } }),
    );
    const said = await startOn(`file://${folder}/`, "claim", fileNamed()).next();
    const hasOwn = process.getBuiltinModule("node:sqlite") !== undefined;
    expect(said).toMatchObject(
      hasOwn
        ? { status: "new" }
        : { code: "driver-missing", message: expect.stringContaining("npm install @photostructure/sqlite") },
    );
  });
});
