/** Tests that a sealed store is a store like any other: it is held to every published case, and its file gives no outcome away. */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { createEngine } from "../../src/core/engine.ts";
import { sealed } from "../../src/sealing/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { describeStoreCases } from "./cases.ts";
import { connections, scratchFiles } from "./sqlite/scratch.ts";

const OPTIONS = { keys: { old: randomBytes(32), new: randomBytes(32) }, current: "new" };

const fileNamed = scratchFiles();
const connect = connections();

describeStoreCases("sealed(memoryStore())", () => {
  const clock = manualClock();
  return { store: sealed(memoryStore({ clock }), OPTIONS), advance: clock.advance };
});

describeStoreCases("sealed(sqliteStore({ database }))", () => {
  const clock = manualClock();
  const store = sqliteStore({ database: new DatabaseSync(":memory:"), clock });
  return { store: sealed(store, OPTIONS), advance: clock.advance };
});

test("SC-12 outcomes are encrypted at rest: the database file has nothing of them, and replays still work", async () => {
  const secret = "the medical report of Ann";
  const request = { operation: "report", scope: "ann", key: "visit-1" };

  async function kept(isSealed: boolean): Promise<{ file: Buffer; replayed: unknown }> {
    const file = fileNamed();
    const database = connect(file);
    const inner = sqliteStore({ database });
    const guard = createEngine({ store: isSealed ? sealed(inner, OPTIONS) : inner, purgeEveryMs: 0 });
    await guard.run(request, async () => ({ secret }));
    const replayed = await guard.tryRun(request, async () => "again");
    await guard.close();
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    return { file: await readFile(file), replayed };
  }

  const atRest = await kept(true);
  expect(atRest.replayed).toEqual({ status: "replayed", value: { secret } });
  expect(atRest.file.includes("sealed.1.new.")).toBe(true);
  for (const readable of [secret, "medical", "secret"]) expect(atRest.file.includes(readable)).toBe(false);
  // The parts of the identity are not sealed, as the documentation says.
  expect(atRest.file.includes("visit-1")).toBe(true);
  expect((await kept(false)).file.includes(secret)).toBe(true);
});
