/** The effects that a node's shell may use. Reading one that its manifest does not declare throws. */
export interface Effects {
  /** `fetch`, limited to the allowed hosts. */
  readonly http: typeof fetch;
  /**
   * The value that the `databases` option has under this name. A node whose manifest lists tables says what it is about to
   * do: `effects.db("orders", "charges:insert")`.
   */
  db(name: string, access?: string): unknown;
  /** The clock of the network. */
  readonly time: {
    /** Milliseconds since the epoch. */
    now(): number;
  };
  /** `bytes` returns 1 to 65,536 of them. With the grade `pseudo`, only `number` works. */
  readonly random: {
    /** A random UUID. */
    uuid(): string;
    /** A number from 0 up to but not including 1. */
    number(): number;
    /** Random bytes of the system's secure source. */
    bytes(count: number): Uint8Array;
  };
}
