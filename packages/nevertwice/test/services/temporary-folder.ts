/**
 * Puts the temporary folders of the tests in memory. Servers and SQLite files flush thousands of times in a run, and on
 * a disk every flush takes milliseconds. The tests kill processes and never the machine, so a flush to memory proves
 * the same: what a process wrote survives it either way.
 */
import { accessSync, chmodSync, constants, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";

const MEMORY = "/dev/shm";
/** A whole run uses less than half of it. */
const NEEDED_BYTES = 4 * 1024 ** 3;

/**
 * Sets `TMPDIR` for this process and those it starts, unless it is set or the machine has no such folder. Campaigns
 * measure real disks, and write more than fits in memory.
 */
export function keepTemporaryFoldersInMemory(): void {
  if (process.env.NEVERTWICE_SCALE === "full" || process.env.TMPDIR !== undefined) return;
  if (process.platform !== "linux" || !isUsable()) return;
  // Postgres and RabbitMQ run as other users, who have to pass through it.
  const folder = mkdtempSync(join(MEMORY, "nevertwice-tests-"));
  chmodSync(folder, 0o755);
  process.env.TMPDIR = folder;
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
}

function isUsable(): boolean {
  try {
    accessSync(MEMORY, constants.W_OK);
    const { bavail, bsize } = statfsSync(MEMORY);
    // The tests compile and load a library there.
    const mounts = readFileSync("/proc/mounts", "utf8").split("\n");
    const mount = mounts.findLast((line) => line.split(" ")[1] === MEMORY) ?? "";
    return bavail * bsize >= NEEDED_BYTES && !/\bnoexec\b/.test(mount);
  } catch {
    return false;
  }
}
