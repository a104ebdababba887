/**
 * Duplicate Prevention: whether a key was recorded within a window. Pure, and it knows of nothing but keys and time. A
 * second recording never extends the first; past the window a key is as if it had never been there, and may be recorded
 * anew.
 */

export interface Recording {
  readonly recordedAt: number;
  /** When the window that it was recorded with ends. */
  readonly windowEndsAt: number;
}

/** At the very instant of its end a key is no longer seen. */
export function check(found: Recording | undefined, now: number): "seen" | "not-seen" {
  return found !== undefined && now < found.windowEndsAt ? "seen" : "not-seen";
}

export function record(found: Recording | undefined, now: number, windowMs: number): Recording {
  if (found !== undefined && check(found, now) === "seen") return found;
  return { recordedAt: now, windowEndsAt: now + windowMs };
}
