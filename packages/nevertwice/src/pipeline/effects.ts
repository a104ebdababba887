/** What a node's effect shell may touch: each axis is there only if its manifest declares it. */
export interface Effects {
  /** `fetch`, for the hosts that are allowed. */
  readonly http: typeof fetch;
  /** A database (or whatever was handed in under that name) when the network was started. */
  db(name: string): unknown;
  readonly time: { now(): number };
  readonly random: { uuid(): string; number(): number };
}
