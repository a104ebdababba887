/** Where a capability is shown: a real store, others like it on the same database, and guards over them. */
import type { GuardOptions } from "../../../src/core/engine.ts";
import type { GuardEvent } from "../../../src/core/observer.ts";
import type { Store } from "../../../src/core/store.ts";
import type { Guard } from "../../../src/functions/guard.ts";
import type { Work } from "../../../src/testing/cases/work.ts";

export interface Scene {
  readonly store: Store;
  /** Another store on the same records, over a connection of its own: what another process would have. */
  readonly elsewhere: Store;
  /** A key that nobody had before, and what is done to it without a guard: over one store, and over the other. */
  work(): { readonly here: Work; readonly there: Work };
  /** A guard and what it told its observer. It is closed with the test; all guards of a scene share their keys. */
  guard(options?: Partial<GuardOptions>): Guard & { readonly events: readonly GuardEvent[] };
  /** What the record of a key is called in the store, for a key of the scene's guards. */
  idOf(operation: string, key: string): string;
  sleep(ms: number): Promise<void>;
}

/** Whose capability it is; "the guide" is a written pattern, the other a library. */
export type Seed = "idempo" | "the guide";

export interface Row {
  readonly of: readonly Seed[];
  /** The stores that have it in their own way, where it is shown for them alone. */
  readonly except?: readonly string[];
  readonly check: (scene: Scene) => Promise<void>;
}

/** By the capability's name. */
export type Rows = Readonly<Record<string, Row>>;

export const IDEMPO: readonly Seed[] = ["idempo"];
export const GUIDE: readonly Seed[] = ["the guide"];
export const BOTH: readonly Seed[] = ["idempo", "the guide"];
