/** What all nodes of a running network share. */
import type { Timer } from "../core/clock.ts";
import type { Engine } from "../core/engine.ts";
import type { Bell } from "./bell.ts";
import type { EffectParts } from "./granting.ts";
import type { Failure, Message, Settled } from "./message.ts";
import type { NodeModel } from "./model.ts";
import type { Tell, Where } from "./pipeline-event.ts";
import type { Kept } from "./returned.ts";

/** What a pipeline needs of a guard. */
export type PipelineGuard = Pick<Engine, "tryRun" | "policy" | "about">;

export interface Environment {
  readonly network: string;
  readonly guard: PipelineGuard;
  readonly timer: Timer;
  readonly random: () => number;
  readonly effects: EffectParts;
  /** Undefined if nobody watches: then no event is even made. */
  readonly tell: Tell | undefined;
  /** Rings when the network stops: what runs is waited for, and nothing is tried again. */
  readonly stopping: Bell;
  /** Rings when it was waited for long enough. */
  readonly halted: Bell;
  /** Sends what a node emitted to wherever its edges lead. `free` is called when all of it has found a place. */
  dispatch(node: NodeModel, kept: Kept, message: Message, free: () => void): Promise<Settled>;
}

export function whereOf({ network }: Pick<Environment, "network">, node: string, message: Message): Where {
  const { id, parents, trace } = message;
  return { network, node, id, parents, trace };
}

export function stopped({ network }: Pick<Environment, "network">, node: string): Failure {
  return { verdict: "later", network, node, phase: "claim", attempt: 0, reason: "stopping" };
}
