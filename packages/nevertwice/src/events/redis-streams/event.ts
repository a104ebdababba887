/** The events of a stream's reader. They never contain a key or a field: an entry is named by its id in the stream. */
export type StreamEvent =
  /** The group was missing, at the start or later, and was created. */
  | {
      readonly kind: "group-created";
      /** The stream. */
      readonly stream: string;
      /** The consumer group. */
      readonly group: string;
    }
  /** A command to Redis failed. It is repeated until Redis answers (`resumed`) or the stream is closed. */
  | {
      readonly kind: "interrupted";
      readonly stream: string;
      /** What went wrong. */
      readonly error: unknown;
    }
  | { readonly kind: "resumed"; readonly stream: string }
  /** This consumer took over idle entries of others. */
  | {
      readonly kind: "claimed";
      readonly stream: string;
      /** How many entries it took over. */
      readonly count: number;
    }
  | {
      readonly kind: "rejected";
      readonly stream: string;
      /** The id of the entry. */
      readonly id: string;
      readonly error: unknown;
    }
  /** The call to Redis, or to `onRejected`, failed: the entry is processed again after `claimIdleMs`. */
  | { readonly kind: "left-pending"; readonly stream: string; readonly id: string; readonly error: unknown };
