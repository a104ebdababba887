/** A network without keys: every message runs through every node. */
import { memoryStore } from "nevertwice/stores/memory";

export const isKeyed = false;

/** A pipeline needs a guard even so, and never calls it. */
export async function open() {
  return { store: memoryStore() };
}
