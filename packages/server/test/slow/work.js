/** Work that says when it begins and takes a while, so that a test can end the process in the middle of it. */
import { setTimeout } from "node:timers/promises";

/** @param {{ id: string, ms: number }} payload */
export const decide = (payload) => payload;

/**
 * @param {{ id: string, ms: number }} payload
 * @param {import("nevertwice/pipeline").ShellContext} context
 */
export async function work({ id, ms }, { emit }) {
  process.stderr.write(`begun ${id}\n`);
  await setTimeout(ms);
  return emit("done", { id });
}
