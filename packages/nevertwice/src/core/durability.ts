/** What the doctor reports about a store: which faults an acknowledged claim survives with its live settings, and why. */

/** The faults that an acknowledged claim may have to survive, from the easiest to the hardest. */
export const FAULTS = ["our-crash", "store-crash", "power-loss", "failover"] as const;

/**
 * A fault that a claim may have to survive, from the easiest to the hardest: the crash of this process, of
 * the store, a power loss, a failover to a replica.
 */
export type Fault = (typeof FAULTS)[number];

/** What the settings of a store say about one fault. */
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
  /** For each fault, whether an acknowledged claim survives it. */
  readonly survives: Readonly<Record<Fault, Finding>>;
  /** Why the store must not be used with its present settings, and what to do about it. */
  readonly refused?: string | undefined;
  /** Anything else that users of the store should know. */
  readonly notes: readonly string[];
}

/** For a database whose log can be archived while it is written. */
const ARCHIVED_LOG =
  "archive_mode = on, and restore up to the end of the archived log, or synchronous_standby_names, so that no restore is needed";

/**
 * The note of every durable store about restored backups. `clock` is the clock that its fences come from. `setting` is what
 * makes a restore go on after the moment of the backup, or makes it unnecessary.
 */
export function restoreNote(clock: string, setting: string = ARCHIVED_LOG): string {
  return (
    `after a restored backup, a flush or a failover that lost writes, work that was completed later runs again if it is retried, and fences are as good as ${clock}. ` +
    `Settings that prevent a repetition: ${setting}; onLapsed: "hold", so that work which was running at the backup waits for a decision; ` +
    "attempt.deriveKey, so that the other side recognises a repetition"
  );
}

/** Formats the setting that decides, and what to do about it. */
export function formatAdvice({ because, raise }: Finding): string {
  return raise === undefined ? because : `${because}; to raise it: ${raise}`;
}
