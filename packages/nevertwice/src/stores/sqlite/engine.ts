/** What runs the store's calls: a worker thread, or the thread that asks. */
import type { Call, Reply } from "./calls.ts";

export interface Engine {
  /** Runs them in one transaction. Rejects if it failed as a whole. */
  run(calls: readonly Call[]): Promise<Reply>;
  /** Asks to be told when another connection is done with this record. */
  watch(id: string): void;
  unwatch(id: string): void;
  close(): Promise<void>;
}
