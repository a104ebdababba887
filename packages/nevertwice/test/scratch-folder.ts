/** A folder that exists until the test ends. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** Concurrent tests pass their own context. */
export async function scratchFolder(
  context: { onTestFinished(end: () => Promise<void>): void } = { onTestFinished },
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "nevertwice-"));
  context.onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
