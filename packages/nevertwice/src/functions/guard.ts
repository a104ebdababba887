/** The guard that users hold: the engine, and functions wrapped by it. */
import { createEngine, type Engine, type GuardOptions } from "../core/engine.ts";
import type { PolicyOptions } from "../core/policy.ts";
import { type WrapOptions, wrap } from "./wrap.ts";

export interface Guard extends Engine {
  with(options: PolicyOptions): Guard;
  /** A function that runs once per key. Options are checked at once; what it answers is always a promise. */
  wrap<Args extends readonly unknown[], T>(
    work: (...args: Args) => T | PromiseLike<T>,
    options: WrapOptions<Parameters<(...args: Args) => void>>,
  ): (...args: Args) => Promise<T>;
}

/** Fails with `options-invalid` on a bad option, by name. docs/options.md has every option and its default. */
export function createGuard(options: GuardOptions): Guard {
  return guardOf(createEngine(options));
}

function guardOf(engine: Engine): Guard {
  return {
    ...engine,
    with: (options) => guardOf(engine.with(options)),
    wrap: (work, wrapOptions) => wrap(engine, work, wrapOptions),
  };
}
