/** `Retry-After` (RFC 9110, section 10.2.3): seconds, or one of the three forms of an HTTP date. */
import type { Clock } from "../core/clock.ts";

/** What else `Date.parse` would take for a date, `1.5` for instance, is no Retry-After. */
const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /;

/** Milliseconds from now; 0 if that date is past. Undefined without the header, or if nobody can read it. */
export function retryAfterMs(headers: Headers, clock: Clock): number | undefined {
  const value = headers.get("retry-after")?.trim();
  if (value === undefined) return undefined;
  if (/^\d+$/.test(value)) return Number(value) * 1_000;
  const at = dateMs(value);
  if (at === undefined) return undefined;
  // By the server's own clock if it tells its time: ours may be off.
  return Math.max(0, at - (dateMs(headers.get("date") ?? "") ?? clock.now()));
}

function dateMs(value: string): number | undefined {
  if (!HTTP_DATE.test(value)) return undefined;
  // The form of C's asctime names no zone, and means the same one.
  const at = Date.parse(value.endsWith("GMT") ? value : `${value} GMT`);
  return Number.isNaN(at) ? undefined : at;
}
