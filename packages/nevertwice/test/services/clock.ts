/** A clock that tests can move, for servers that read the system clock. */
import { execFile } from "node:child_process";
import { openSync, writeSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { find } from "./packages.ts";

export interface Clock {
  /** The variables that the server's environment needs. */
  readonly env: Readonly<Record<string, string>>;
  /** Moves it from its present time, back if `ms` is negative. */
  step(ms: number): void;
}

/** Builds the library that is loaded into a server before its own code, and returns its path. */
export async function compileShim(source: string, folder: string): Promise<string> {
  const library = join(folder, source.replace(/\.c$/, ".so"));
  const path = fileURLToPath(new URL(source, import.meta.url));
  const options = ["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, path];
  await promisify(execFile)(find("cc"), options);
  await chmod(library, 0o755);
  return library;
}

/** `folder` belongs to the server and is removed with it. */
export async function startClock(folder: string): Promise<Clock> {
  const library = await compileShim("clock-shim.c", folder);
  const file = join(folder, "clock-offset");
  const offset = openSync(file, "w", 0o644);
  let ms = 0;
  const step = (by: number): void => {
    ms += by;
    const nanoseconds = new BigInt64Array([BigInt(Math.round(ms * 1_000_000))]);
    writeSync(offset, nanoseconds, 0, 8, 0);
  };
  step(0);
  await chmod(file, 0o644);
  return { env: { LD_PRELOAD: library, NEVERTWICE_CLOCK_OFFSET: file }, step };
}
