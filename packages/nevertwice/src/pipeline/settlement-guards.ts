/** The guards of settlements: one for each retention, of which a network has at most one a node. */
import type { PipelineGuard } from "./network-context.ts";
import { settlementPolicies } from "./settlement.ts";

export function createSettlementGuards(guard: PipelineGuard): (retentionMs: number) => PipelineGuard {
  const guards = new Map<number, PipelineGuard>();
  return (retentionMs) => {
    let found = guards.get(retentionMs);
    if (found === undefined) {
      found = guard.with(settlementPolicies(retentionMs));
      guards.set(retentionMs, found);
    }
    return found;
  };
}
