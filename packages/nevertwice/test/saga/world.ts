/** A world outside of the store for the tests of sagas: it notes every effect, and recognises the keys of repeated ones. */
import type { RunContext, SagaStep, UndoContext } from "../../src/saga/index.ts";

const NAMES = ["reserve", "charge", "ship"];
export const DONE = ["reserve", "charge", "ship"];
export const UNDONE = ["reserve", "charge", "undo ship", "undo charge", "undo reserve"];

export interface World {
  readonly effects: string[];
  /** The steps and undos that throw for now: `ship`, `undo charge`. */
  readonly broken: Set<string>;
  readonly steps: readonly SagaStep[];
}

/** `before` is called before each effect, and `after` after it, with its name. */
export function createWorld(
  broken: readonly string[] = [],
  { before, after }: { before?: Hook; after?: Hook } = {},
): World {
  const world = { effects: [] as string[], broken: new Set(broken) };
  const known = new Set<string>();
  async function act(effect: string, context: RunContext | UndoContext): Promise<string> {
    const key = context.deriveKey();
    await before?.(effect, context);
    if (world.broken.has(effect)) throw new Error(`${effect} is broken`);
    if (!known.has(key)) world.effects.push(effect);
    known.add(key);
    await after?.(effect, context);
    return `${effect} done`;
  }
  const steps = NAMES.map((name) => ({
    name,
    run: (context: RunContext) => act(name, context),
    undo: (context: UndoContext) => act(`undo ${name}`, context),
  }));
  return { ...world, steps };
}

type Hook = (effect: string, context: RunContext | UndoContext) => unknown;
