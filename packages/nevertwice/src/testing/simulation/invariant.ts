/** What must hold whatever happens. docs/guarantees.md explains each; the numbers leave room for what a simulation cannot see. */

export type Invariant = "I1" | "I2" | "I3" | "I6" | "I7" | "I8" | "I12";

export interface Violation {
  readonly invariant: Invariant;
  readonly what: string;
}

export type Fail = (invariant: Invariant, what: string) => void;
