/** What the tests of the specification's capabilities read: the page that users are given, and our own source. */
import { readdir, readFile } from "node:fs/promises";

const ROOT = new URL("../../../../", import.meta.url);

/** docs/reservations.md, in one line. */
export async function page(): Promise<string> {
  return (await text("docs/reservations.md")).replace(/\s+/g, " ");
}

export function text(path: string): Promise<string> {
  return readFile(new URL(path, ROOT), "utf8");
}

export async function namesIn(folder: string): Promise<string[]> {
  return await readdir(new URL(folder, ROOT), { recursive: true });
}
