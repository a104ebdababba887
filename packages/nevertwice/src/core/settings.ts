/** What a store says about its own live settings: which faults an acknowledged claim survives, and why. */

/** What an acknowledged claim may have to survive, each harder than the one before. */
export const FAULTS = ["our-crash", "store-crash", "power-loss", "failover"] as const;

export type Fault = (typeof FAULTS)[number];

export interface Finding {
  /** `unknown` where the store does not let its settings be read. */
  readonly survives: "yes" | "no" | "unknown";
  /** The setting that decides, as it stands: `appendfsync everysec: up to a second of claims is lost`. */
  readonly because: string;
  /** What to set for a better answer; absent where there is nothing better. */
  readonly raise?: string | undefined;
}

/** What a store found when it read its own live settings. */
export interface StoreSettings {
  /** The store and the settings that matter: `Redis, AOF everysec`. */
  readonly title: string;
  readonly survives: Readonly<Record<Fault, Finding>>;
  /** Why it must not keep claims at all as it is set up, and what to do. */
  readonly refused?: string | undefined;
  /** What else its users should know. */
  readonly notes: readonly string[];
}

/** The setting that decides, and what to do about it. */
export function adviceOf({ because, raise }: Finding): string {
  return raise === undefined ? because : `${because}; to raise it: ${raise}`;
}
