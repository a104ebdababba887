/** Plants a bug in a copy of the built library. */
import { cp, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import type { PlantedBug } from "./planted-bugs.ts";

const build = new URL("../../build/", import.meta.url);

/** The folder of a copy with the bug in it. It lies beside the original, so that imports resolve alike. The caller removes it. */
export async function plant({ file, find, replace }: PlantedBug): Promise<string> {
  const folder = await mkdtemp(join(new URL("..", build).pathname, ".planted-"));
  await cp(build, folder, { recursive: true, filter: (source) => !/\.(d\.ts|map)$/.test(source) });
  const text = await readFile(join(folder, file), "utf8");
  expect(text.split(find).length - 1, `${find} must stand once in ${file}`).toBe(1);
  await writeFile(
    join(folder, file),
    text.replace(find, () => replace),
  );
  return folder;
}
