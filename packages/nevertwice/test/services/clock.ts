/** A clock that tests can move, for servers that only know the system's. */
import { execFile } from "node:child_process";
import { openSync, writeSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { find } from "./packages.ts";

export interface Clock {
  /** What the server's environment must hold. */
  readonly env: Readonly<Record<string, string>>;
  /** Moves it from where it stands, back if `ms` is negative. */
  step(ms: number): void;
}

const SOURCE = fileURLToPath(new URL("clock-shim.c", import.meta.url));

/** The folder is the server's, and is removed with it. */
export async function startClock(folder: string): Promise<Clock> {
  const library = join(folder, "clock-shim.so");
  const file = join(folder, "clock-offset");
  await promisify(execFile)(find("cc"), [
    "-O2",
    "-Wall",
    "-Werror",
    "-shared",
    "-fPIC",
    "-o",
    library,
    SOURCE,
  ]);
  const offset = openSync(file, "w", 0o644);
  let ms = 0;
  const step = (by: number): void => {
    ms += by;
    const nanoseconds = new BigInt64Array([BigInt(Math.round(ms * 1_000_000))]);
    writeSync(offset, nanoseconds, 0, 8, 0);
  };
  step(0);
  await Promise.all([chmod(library, 0o755), chmod(file, 0o644)]);
  return { env: { LD_PRELOAD: library, NEVERTWICE_CLOCK_OFFSET: file }, step };
}
