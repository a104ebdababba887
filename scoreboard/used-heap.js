/** The bytes that live objects take. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

export function usedHeap() {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  collect();
  collect();
  return process.memoryUsage().heapUsed;
}
