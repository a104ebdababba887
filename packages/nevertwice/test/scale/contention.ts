/** Runs several processes that contend for the same few keys of one store. Some of them are killed or paused while they own a key. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestContext } from "vitest";
import { toIdentity } from "../../src/core/identity.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { startProcess } from "./processes.ts";
import { judge, type Note, type Verdict } from "./referee.ts";

export interface Contention {
  readonly url: string;
  readonly processes: number;
  /** How many claims each process makes at least. */
  readonly claims: number;
  readonly leaseMs: number;
  /** How many processes are killed while they own a key, and how many are paused past the lease. */
  readonly killed: number;
  readonly paused: number;
  /** How many processes pretend to own a key that is pending. */
  readonly lying?: number;
}

const KEYS = 16;
/** More than one, so that calls of one process also share a batch. */
const LANES = 4;

export async function contend(
  context: TestContext,
  contention: Contention,
): Promise<Verdict & { seconds: number }> {
  const { url, processes, claims, leaseMs, killed, paused, lying = 0 } = contention;
  const folder = await scratchFolder(context);
  const keys = Array.from({ length: KEYS }, (_, index) => {
    const key = `key ${index}`;
    return { key, id: toIdentity({ namespace: "scale", scope: "", operation: "contend", key }).id };
  });
  const contenders = Array.from({ length: processes }, (_, index) => {
    const notes = join(folder, `${index}.jsonl`);
    const isHeld = index < killed + paused;
    const isLying = index >= processes - lying;
    const options = { url, keys, claims, lanes: LANES, leaseMs, notes, isHeld, isLying };
    return { notes, ...startProcess(context, "contender.js", options) };
  });
  await Promise.all(contenders.map(({ next }) => next("ready")));
  const startedAt = performance.now();
  for (const { tell } of contenders) tell("begin");

  await Promise.all(
    contenders.slice(0, killed + paused).map(async ({ next, signal, tell }, index) => {
      await next("holding");
      if (index < killed) return signal("SIGKILL");
      signal("SIGSTOP");
      await sleep(2 * leaseMs);
      signal("SIGCONT");
      tell("go-on");
    }),
  );
  // The other processes still claim, and take over the keys of the killed ones.
  await sleep(2 * leaseMs);
  for (const { tell } of contenders.slice(killed)) tell("end");
  await Promise.all(contenders.map(({ ended }) => ended));
  const seconds = (performance.now() - startedAt) / 1_000;
  return { ...judge(await Promise.all(contenders.map(({ notes }) => readNotes(notes))), leaseMs), seconds };
}

/** The last line of a killed process may be incomplete. */
async function readNotes(path: string): Promise<Note[]> {
  const lines = (await readFile(path, "utf8")).split("\n");
  return lines.slice(0, -1).map((line) => JSON.parse(line) as Note);
}
