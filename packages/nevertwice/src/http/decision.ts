/** What becomes of a key once its handler has answered. */
import type { FailureDisposition } from "../core/policy.ts";
import type { HttpResponse, KeepDecision } from "./exchange.ts";
import type { JudgedResponse, Keep } from "./options.ts";

/** Answers that say that nothing was done and the same request may be welcome later. */
const NOTHING_DONE: ReadonlySet<number> = new Set([401, 403, 408, 425, 429]);

/** The handler's say, or the options', or the rule: what failed is free again, every other answer stands. */
export function decide<Native>(
  response: HttpResponse,
  keep: Keep<Native> | undefined,
  native: Native,
  ifFailed: () => FailureDisposition,
): KeepDecision {
  return chosen(response, keep, native) ?? ruled(response.status, ifFailed);
}

function chosen<Native>(
  response: HttpResponse,
  keep: Keep<Native> | undefined,
  native: Native,
): KeepDecision | undefined {
  if (typeof keep !== "function") return chosenByStatus(response.status, keep);
  try {
    return keep(judged(response), native);
  } catch {
    // Whoever should have judged could not: then the rule does.
    return undefined;
  }
}

/** What the options say without looking at more than the status. */
export function chosenByStatus(status: number, keep: Keep<never> | undefined): KeepDecision | undefined {
  if (typeof keep === "string" || keep === undefined) return keep;
  if (typeof keep === "function") return undefined;
  return keep[status] ?? keep[`${Math.floor(status / 100)}xx` as "5xx"];
}

function ruled(status: number, ifFailed: () => FailureDisposition): KeepDecision {
  if (NOTHING_DONE.has(status)) return "release";
  if (status < 500) return "keep";
  const failed = ifFailed();
  return failed === "remember" ? "keep" : failed;
}

function judged(response: HttpResponse): JudgedResponse {
  return {
    ...response,
    header(name) {
      const lower = name.toLowerCase();
      const values = response.headers
        .filter(([line]) => line.toLowerCase() === lower)
        .map(([, value]) => value);
      return values.length === 0 ? undefined : values.join(", ");
    },
  };
}
