/** Reads documents and sources of the repository, for the tests that compare them with what the code does. */
import { readdir, readFile } from "node:fs/promises";

const ROOT = new URL("../../../", import.meta.url);

/** The file's text. */
export function text(path: string): Promise<string> {
  return readFile(new URL(path, ROOT), "utf8");
}

/** The page's text in one line, so that a sentence is found across line breaks. */
export async function page(path: string): Promise<string> {
  return (await text(path)).replace(/\s+/g, " ");
}

/** The names of all files under the folder, relative to it. */
export async function namesIn(folder: string): Promise<string[]> {
  return await readdir(new URL(folder, ROOT), { recursive: true });
}
