/** The same network with keys, on a store. */
import { STORES } from "./nevertwice.js";

export const isKeyed = true;

export function open(store, target, capacity) {
  return STORES[store](target, capacity);
}
