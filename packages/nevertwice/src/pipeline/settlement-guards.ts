/** The guards of settlements: one for each retention, of which a network has at most one a node. */
import { POLICY_DEFAULTS } from "../core/policy.ts";
import type { PipelineGuard } from "./network-context.ts";
import { settlementPolicies } from "./settlement.ts";

export function createSettlementGuards(guard: PipelineGuard): (retentionMs: number) => PipelineGuard {
  const guards = new Map<number, PipelineGuard>();
  return (retentionMs) => {
    let found = guards.get(retentionMs);
    if (found === undefined) {
      // An outcome counts only once the store has confirmed the settlement.
      const completeWaitMs = guard.policy.completeWaitMs || POLICY_DEFAULTS.completeWaitMs;
      found = guard.with({ ...settlementPolicies(retentionMs), completeWaitMs });
      guards.set(retentionMs, found);
    }
    return found;
  };
}
