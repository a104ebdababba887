/** A script that is run, and the connection that runs it. */

/** The arguments of EVALSHA and EVAL. */
export type Evaluation = [script: string, keyCount: string, ...keysAndArguments: string[]];

/** Runs a script, by its hash or by its text. */
export type Evaluate = (command: "EVALSHA" | "EVAL", args: Evaluation) => Promise<unknown>;

/** One that is chosen for a script and the WAIT behind it. */
export interface WritingConnection {
  readonly evaluate: Evaluate;
  send(command: string, ...args: string[]): Promise<unknown>;
  /** How often it has been lost or replaced. */
  losses(): number;
}
