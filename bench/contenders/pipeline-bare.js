/** A network without keys: every message runs through every node. */
import { memoryStore } from "nevertwice/stores/memory";

export const isKeyed = false;

/** A pipeline has a guard even so; it asks it for nothing. */
export async function open() {
  return { store: memoryStore() };
}
