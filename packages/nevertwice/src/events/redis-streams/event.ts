/** What the reading of a stream tells whoever watches it. Never a key or a field: an entry is named by its id in the stream. */
export type StreamEvent =
  /** There was no group, at the start or since: it was made. */
  | { readonly kind: "group-created"; readonly stream: string; readonly group: string }
  /** Redis could not be asked. It is asked again, until it answers (`resumed`) or the stream is closed. */
  | { readonly kind: "interrupted"; readonly stream: string; readonly error: unknown }
  | { readonly kind: "resumed"; readonly stream: string }
  /** Idle entries are ours now. */
  | { readonly kind: "claimed"; readonly stream: string; readonly count: number }
  | { readonly kind: "rejected"; readonly stream: string; readonly id: string; readonly error: unknown }
  /** Redis, or `onRejected`, could not be told what became of an entry: it is looked at again after `claimIdleMs`. */
  | { readonly kind: "left-pending"; readonly stream: string; readonly id: string; readonly error: unknown };
