/** The guard that users hold: the engine, and what functions, jobs and locks need of it. */
import { createEngine, type Engine, type GuardOptions } from "../core/engine.ts";
import type { Key } from "../core/key.ts";
import { createEmit, observersIn } from "../core/observer.ts";
import type { PolicyOptions } from "../core/policy.ts";
import { type Claims, claimsOf } from "./claim.ts";
import { type ExclusiveOptions, exclusive, type Lock } from "./exclusive.ts";
import { type Marks, marksOf, type TellMark } from "./mark.ts";
import { type WrapOptions, wrap } from "./wrap.ts";

export interface Guard extends Engine, Marks, Claims {
  with(options: PolicyOptions): Guard;
  /** A function that runs once per key. Options are checked at once; what it answers is always a promise. */
  wrap<Args extends readonly unknown[], T>(
    work: (...args: Args) => T | PromiseLike<T>,
    options: WrapOptions<Parameters<(...args: Args) => void>>,
  ): (...args: Args) => Promise<T>;
  /** Runs `work` while nobody else runs under this name. Only its fence is safe: a holder that was paused may not know that it is one no more. */
  exclusive<T>(
    name: string | Key,
    work: (lock: Lock) => T | PromiseLike<T>,
    options?: ExclusiveOptions,
  ): Promise<T>;
}

/** Fails with `options-invalid` on a bad option, by name. docs/options.md has every option and its default. */
export function createGuard(options: GuardOptions): Guard {
  const engine = createEngine(options);
  const emit = createEmit(observersIn(options.observer));
  return guardOf(engine, (kind, subject, cause) => {
    const who = engine.about(subject);
    emit?.(kind === "proceeded" ? { ...who, kind } : { ...who, kind, during: "read", cause });
  });
}

function guardOf(engine: Engine, tell: TellMark): Guard {
  return {
    ...engine,
    ...marksOf(engine, tell),
    ...claimsOf(engine),
    get policy() {
      return engine.policy;
    },
    with: (options) => guardOf(engine.with(options), tell),
    wrap: (work, options) => wrap(engine, work, options),
    exclusive: (name, work, options) => exclusive(engine, name, work, options),
  };
}
