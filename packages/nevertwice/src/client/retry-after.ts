/** Reads `Retry-After` (RFC 9110, section 10.2.3): seconds, or one of the three forms of an HTTP date. */
import type { Clock } from "../core/clock.ts";

/** `Date.parse` accepts more than HTTP dates, `1.5` for example. */
const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /;

/** Milliseconds from now; 0 for a date in the past. Undefined if the header is missing or malformed. */
export function retryAfterMs(headers: Headers, clock: Clock): number | undefined {
  const value = headers.get("retry-after")?.trim();
  if (value === undefined) return undefined;
  if (/^\d+$/.test(value)) return Number(value) * 1_000;
  const at = dateMs(value);
  if (at === undefined) return undefined;
  // Compared with the server's own `Date`, if it sends one: the local clock may be wrong.
  return Math.max(0, at - (dateMs(headers.get("date") ?? "") ?? clock.now()));
}

function dateMs(value: string): number | undefined {
  if (!HTTP_DATE.test(value)) return undefined;
  // The asctime form names no time zone. It means GMT too.
  const at = Date.parse(value.endsWith("GMT") ? value : `${value} GMT`);
  return Number.isNaN(at) ? undefined : at;
}
