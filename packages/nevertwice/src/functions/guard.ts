/** The guard that users hold: the engine, and functions wrapped by it. */
import { createEngine, type Engine, type GuardOptions } from "../core/engine.ts";
import { type WrapOptions, wrap } from "./wrap.ts";

export interface Guard extends Engine {
  /** A function that runs once per key. Options are checked at once; what it answers is always a promise. */
  wrap<Args extends readonly unknown[], T>(
    work: (...args: Args) => T | PromiseLike<T>,
    options: WrapOptions<Parameters<(...args: Args) => void>>,
  ): (...args: Args) => Promise<T>;
}

/** Fails with `options-invalid` on a bad option, by name. docs/options.md has every option and its default. */
export function createGuard(options: GuardOptions): Guard {
  const engine = createEngine(options);
  return { ...engine, wrap: (work, wrapOptions) => wrap(engine, work, wrapOptions) };
}
