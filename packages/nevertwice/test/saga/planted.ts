/** Copies of the saga's source with a bug planted in each. A patch must fit exactly once, or it no longer tests anything. */
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";
import type { saga } from "../../src/saga/index.ts";

export interface PlantedBug {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: "the decision is kept after the first undo",
    file: "saga-attempt.ts",
    find: "await this.#keep(decisionEntry(",
    replace: `await step.undo?.({ ...this.#context("undo", step), outcome: undefined, error });
    await this.#keep(decisionEntry(`,
  },
  {
    name: "the decision flips",
    file: "saga-attempt.ts",
    find: "return decision === undefined ?",
    replace: "return decision === undefined || this.#log.undone.size === 0 ?",
  },
  {
    name: "the step that threw is not undone",
    file: "saga-log.ts",
    find: "const isInFlight = mayHaveHappened &&",
    replace: "const isInFlight = false && mayHaveHappened &&",
  },
  {
    name: "a finished undo is not kept, and so repeated",
    file: "saga-attempt.ts",
    find: "await this.#keep(entry, noted);",
    replace:
      'if (entry.startsWith("saga: undid ")) await noted();\n      else await this.#keep(entry, noted);',
  },
  {
    name: "steps are undone in the order in which they ran",
    file: "saga-log.ts",
    find: "[...this.outcomes.keys()].reverse()",
    replace: "[...this.outcomes.keys()]",
  },
  {
    name: "an error of another guard decides to undo",
    file: "saga-attempt.ts",
    find: "|| isInterruption(error)",
    replace: "|| false",
  },
  {
    name: "a finished step is not kept, and so repeated",
    file: "saga-attempt.ts",
    find: "await this.#keep(entry, noted);",
    replace: 'if (entry.startsWith("step ")) await noted();\n      else await this.#keep(entry, noted);',
  },
];

const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));

/** The function of a copy with this bug. The copy is beside the source, and shares its core. */
export async function plant({ file, find, replace }: PlantedBug): Promise<typeof saga> {
  const folder = await mkdtemp(join(PACKAGE, ".planted-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await cp(join(PACKAGE, "src/saga"), folder, { recursive: true });
  for (const name of await readdir(folder)) {
    let text = (await readFile(join(folder, name), "utf8")).replaceAll('"../core/', '"../src/core/');
    if (name === file) {
      expect(text.split(find).length - 1, `${find} must stand once in ${file}`).toBe(1);
      text = text.replace(find, () => replace);
    }
    await writeFile(join(folder, name), text);
  }
  return ((await import(join(folder, "index.ts"))) as { saga: typeof saga }).saga;
}
