/** All that the engine touches outside itself. Handing in others is what makes it simulable. */
import type { Background } from "./background.ts";
import type { Timer } from "./clock.ts";
import type { Emit } from "./observer.ts";
import type { Policy } from "./policy.ts";
import type { Requirement } from "./requirement.ts";
import type { Store } from "./store.ts";

export interface Ports {
  readonly store: Store;
  readonly timer: Timer;
  /** From 0 up to 1; spreads retries and polls, decides nothing. */
  readonly random: () => number;
  /** Unguessable and never repeated: whoever knows a claim's token owns the claim. */
  readonly newToken: () => string;
  readonly emit: Emit | undefined;
  /** What the observer says of where the work runs, kept with its outcome. */
  readonly origin?: (() => string | undefined) | undefined;
  readonly background: Background;
  /** What the store must survive before it is given a claim. */
  readonly requirement: Requirement | undefined;
}

/** How large an outcome may be: what the policy says, and not more than the store takes. */
export function outcomeLimit({ store }: Ports, { maxOutcomeBytes }: Policy): number {
  return Math.min(maxOutcomeBytes, store.maxOutcomeBytes ?? Number.POSITIVE_INFINITY);
}
