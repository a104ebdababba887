/** What a door that stores values of its own form says about them, beside the options of a request. */
import type { JudgeReplay } from "./replay-fault.ts";

export interface DoorRules {
  /** For observers. The door itself answers the duplicate. */
  readonly judgeReplay?: JudgeReplay | undefined;
  /** Replaces `maxOutcomeBytes` for the encoded outcome, where the door has applied that limit to a part of it. */
  readonly mostOutcomeBytes?: number | undefined;
}

/** Shared by all copies of this package. It is a symbol, so that no option, JSON body or manifest can contain it. */
const RULES = Symbol.for("nevertwice.door-rules");

/** To be spread into a request. The spread also copies the symbol. */
export function doorRules(rules: DoorRules): object {
  return { [RULES]: rules };
}

export function findDoorRules(request: object): DoorRules | undefined {
  return (request as { readonly [RULES]?: DoorRules })[RULES];
}
