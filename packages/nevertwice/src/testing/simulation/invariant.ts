/** The invariants that a simulation checks. docs/guarantees.md explains each, and also those that no simulation can see. */

export type Invariant = "I1" | "I2" | "I3" | "I6" | "I7" | "I8" | "I12" | "I13";

export interface Violation {
  /** The invariant that was broken. */
  readonly invariant: Invariant;
  /** What happened, in a sentence. */
  readonly what: string;
}

export type Fail = (invariant: Invariant, what: string) => void;
