/** What all nodes of a running network share. */
import type { Timer } from "../core/clock.ts";
import type { Engine } from "../core/engine.ts";
import type { EffectSources } from "./effect-grants.ts";
import type { Message } from "./message.ts";
import type { Failure } from "./message-outcome.ts";
import type { EventPlace, ReportEvent } from "./pipeline-event.ts";
import type { StopSignal } from "./stop-signal.ts";

/** The part of a guard that a pipeline uses. */
export type PipelineGuard = Pick<Engine, "tryRun" | "policy" | "about" | "read" | "with">;

export interface NetworkContext {
  readonly network: string;
  readonly guard: PipelineGuard;
  /** The guard with the policies of settlements that are kept for so long. */
  readonly settlementGuard: (retentionMs: number) => PipelineGuard;
  readonly timer: Timer;
  readonly random: () => number;
  readonly effects: EffectSources;
  /** Undefined without an `onEvent`: then no event object is created. */
  readonly report: ReportEvent | undefined;
  /** Fires when the network starts to stop: running messages may finish, and failed ones are not retried. */
  readonly stopping: StopSignal;
  /** Fires when `drainMs` is over. */
  readonly halted: StopSignal;
}

export function eventPlace(
  { network }: Pick<NetworkContext, "network">,
  node: string,
  message: Message,
): EventPlace {
  const { id, parents, trace } = message;
  return { network, node, id, parents, trace };
}

/** For a message that was not started when the network stopped. */
export function stoppingFailure({ network }: Pick<NetworkContext, "network">, node: string): Failure {
  return { verdict: "later", network, node, phase: "claim", attempt: 0, reason: "stopping" };
}
