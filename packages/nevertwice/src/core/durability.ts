/** What the doctor reports about a store: which faults an acknowledged claim survives with its live settings, and why. */

/** The faults that an acknowledged claim may have to survive, from the easiest to the hardest. */
export const FAULTS = ["our-crash", "store-crash", "power-loss", "failover"] as const;

export type Fault = (typeof FAULTS)[number];

export interface Finding {
  /** `unknown` if the settings of the store cannot be read. */
  readonly survives: "yes" | "no" | "unknown";
  /** The setting that decides, with its current value: `appendfsync everysec: up to a second of claims is lost`. */
  readonly because: string;
  /** What to change for a better answer; absent if there is nothing better. */
  readonly raise?: string | undefined;
}

/** What a store reads from its own live settings. */
export interface StoreSettings {
  /** The store and the settings that matter: `Redis, AOF everysec`. */
  readonly title: string;
  readonly survives: Readonly<Record<Fault, Finding>>;
  /** Why the store must not be used with its present settings, and what to do about it. */
  readonly refused?: string | undefined;
  /** Anything else that users of the store should know. */
  readonly notes: readonly string[];
}

/** Formats the setting that decides, and what to do about it. */
export function formatAdvice({ because, raise }: Finding): string {
  return raise === undefined ? because : `${because}; to raise it: ${raise}`;
}
