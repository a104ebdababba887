/** A disk whose flushes fail while a test says so, for servers and processes that are started with its environment. */
import { openSync, writeSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { compileShim } from "./clock.ts";

export interface FailingFlush {
  /** The variables that the process's environment needs. */
  readonly env: Readonly<Record<string, string>>;
  fail(): void;
  heal(): void;
}

/** The folder must be one that the user of the process may read. */
export async function createFailingFlush(folder: string): Promise<FailingFlush> {
  const library = await compileShim("failing-flush.c", folder);
  const name = join(folder, "failing-flush");
  const file = openSync(name, "w", 0o644);
  const write = (byte: number) => void writeSync(file, new Uint8Array([byte]), 0, 1, 0);
  write(0);
  await chmod(name, 0o644);
  return {
    env: { LD_PRELOAD: library, NEVERTWICE_FAILING_FLUSH: name },
    fail: () => write(1),
    heal: () => write(0),
  };
}
