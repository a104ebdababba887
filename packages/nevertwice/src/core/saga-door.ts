/**
 * How `saga/` reaches the engine of a guard that it is handed. It is stored on the guard under a symbol, since the methods of
 * a guard are for users.
 */
import { requireGuard } from "./argument-checks.ts";
import type { Work } from "./attempt.ts";
import { claimRound, readRecord } from "./claim-round.ts";
import type { Timer } from "./clock.ts";
import { NevertwiceError } from "./errors.ts";
import type { Ports } from "./ports.ts";
import type { Call, RunRequest } from "./request.ts";
import type { RunResult } from "./result.ts";
import { settleAbandon } from "./settlement.ts";
import type { StoreRecord } from "./store.ts";

export interface SagaDoor {
  readonly timer: Timer;
  readonly random: () => number;
  /** Throws for an invalid request. */
  prepare(request: RunRequest): Call;
  /** As `tryRun`, with a checked call. Apart from the caller's own signal, it rejects only with what the work threw, now or earlier. */
  execute<T>(call: Call, work: Work<T>): Promise<RunResult<T>>;
  read(call: Call): Promise<StoreRecord | undefined>;
  /**
   * Makes a lapsed record wait for a decision, so that no caller takes it over. Returns its new fence; undefined if the
   * record no longer has this fence, or if the store does not answer.
   */
  hold(call: Call, fence: number): Promise<number | undefined>;
}

/** What the engine does for its door. */
type InnerEngine = Pick<SagaDoor, "prepare" | "execute">;

export function createSagaDoor(ports: Ports, { prepare, execute }: InnerEngine): SagaDoor {
  const { timer, random } = ports;
  return {
    timer,
    random,
    prepare,
    execute,
    read: (call) => readRecord(ports, call),
    async hold(call, fence) {
      const held = { ...call, policy: { ...call.policy, onLapsed: "hold" } } as const;
      const { round, answer } = await claimRound(ports, held, fence);
      if (answer.status !== "new") return undefined;
      const settlement = {
        call: held,
        round,
        fence: answer.fence,
        isUnclaimed: false,
        startedAt: round.sentAt,
      };
      // This claim took over a lapsed record, so `unrun` leaves it lapsed, and the claim has made it held.
      const isHeld = await settleAbandon(ports, settlement, {
        kind: "abandon",
        as: "unrun",
        thrown: undefined,
      });
      return isHeld === true ? answer.fence : undefined;
    },
  };
}

/** A registered symbol, so that all copies of this package share it. */
export const SAGA_DOOR: unique symbol = Symbol.for("nevertwice.saga") as never;

/** Throws `options-invalid` for an object that is not a guard. `usage` shows the call with the guard in its place. */
export function sagaDoor(guard: unknown, usage: string): SagaDoor {
  requireGuard(guard, usage);
  const { [SAGA_DOOR]: door } = guard as { readonly [SAGA_DOOR]?: SagaDoor };
  if (door !== undefined) return door;
  throw new NevertwiceError(
    "options-invalid",
    `the guard was not made by createGuard of this version: ${usage}.`,
  );
}
