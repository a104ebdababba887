/**
 * Duplicate Prevention: whether a key was recorded within its window. Pure; it knows only keys and time. A second
 * recording never extends the first. Once its window has ended, a key counts as never seen and may be recorded again.
 */

export interface Recording {
  /** When the key was recorded, in milliseconds since the epoch. */
  readonly recordedAt: number;
  /** The end of the window that the key was recorded with. */
  readonly windowEndsAt: number;
}

/** From `windowEndsAt` on, that instant included, the key is not seen. */
export function check(found: Recording | undefined, now: number): "seen" | "not-seen" {
  return found !== undefined && now < found.windowEndsAt ? "seen" : "not-seen";
}

export function record(found: Recording | undefined, now: number, windowMs: number): Recording {
  if (found !== undefined && check(found, now) === "seen") return found;
  return { recordedAt: now, windowEndsAt: now + windowMs };
}
