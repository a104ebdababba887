/** A gate in front of the log of a MariaDB: while it is shut, commits are only in the server's memory. */
import { openSync, writeSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { compileShim } from "./clock.ts";

export interface LogGate {
  /** The variables that the server's environment needs. */
  readonly env: Readonly<Record<string, string>>;
  shut(): void;
  open(): void;
}

/** The folder must be one that the server's user may read. */
export async function createLogGate(folder: string): Promise<LogGate> {
  const library = await compileShim("log-gate-shim.c", folder);
  const name = join(folder, "log-gate");
  const file = openSync(name, "w", 0o644);
  const write = (byte: number) => void writeSync(file, new Uint8Array([byte]), 0, 1, 0);
  write(0);
  await chmod(name, 0o644);
  return {
    env: { LD_PRELOAD: library, NEVERTWICE_LOG_GATE: name },
    shut: () => write(1),
    open: () => write(0),
  };
}
