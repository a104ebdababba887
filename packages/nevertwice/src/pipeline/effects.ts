/** The effects that a node's shell may use. Reading one that its manifest does not declare throws. */
export interface Effects {
  /** `fetch`, limited to the allowed hosts. */
  readonly http: typeof fetch;
  /** The value that the `databases` option has under this name. */
  db(name: string): unknown;
  readonly time: { now(): number };
  readonly random: { uuid(): string; number(): number };
}
