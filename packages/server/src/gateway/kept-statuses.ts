/** What happens to a key for each status of the service's response: what the route says, then its profile, then the gateway. */
import { type KeepDecision, profileOptions } from "nevertwice/http";
import type { GatewayRule } from "./gateway-rules.ts";

type StatusTable = Readonly<Record<string, KeepDecision>>;

/** 404 and 405 mean that nothing was done, and anyone can provoke any number of them: they are not worth storing. */
const NOT_DONE: StatusTable = { 404: "release", 405: "release" };

/**
 * 502 and 504 come from a proxy that lost the service, and do not tell what the service has done. So no profile decides about
 * them: a profile that keeps every answer of the service means the service's own.
 */
const LOST: StatusTable = { 502: "unknown", 504: "unknown" };

/** For profiles that keep failures. They say so by `onFailure`, which the gateway needs for a lost service. */
const FAILURES_KEPT: StatusTable = { "5xx": "keep" };

const CLASSES = ["1xx", "2xx", "3xx", "4xx", "5xx"];

export function keepByStatus({ profile = "ietf", keep }: Pick<GatewayRule, "profile" | "keep">): StatusTable {
  const { keep: ofProfile, onFailure } = profileOptions(profile);
  if (typeof ofProfile === "string") {
    const all = Object.fromEntries(CLASSES.map((name) => [name, ofProfile as KeepDecision]));
    return { ...all, ...LOST, ...keep };
  }
  const failures = onFailure === "remember" ? FAILURES_KEPT : {};
  return { ...NOT_DONE, ...LOST, ...failures, ...(ofProfile as StatusTable | undefined), ...keep };
}

/** Statuses that release the key by default: nothing was done. */
const RELEASED: ReadonlySet<number> = new Set([401, 403, 408, 425, 429]);

/** What happens to the key after a response with this status. */
export function decisionFor(status: number, keep: StatusTable): KeepDecision {
  const decision = keep[status] ?? keep[`${Math.floor(status / 100)}xx`];
  return decision ?? (status < 500 && !RELEASED.has(status) ? "keep" : "release");
}

/** The statuses after which SDKs send the same request again, unless they are told not to. */
export function looksTransient(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}
