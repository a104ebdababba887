/** Decides what happens to a key after its handler has responded: keep, release, unknown or marker. */
import { harmless } from "../core/observer.ts";
import type { FailureDisposition } from "../core/policy.ts";
import type { KeepDecision } from "./http-attempt.ts";
import type { HttpResponse } from "./http-message.ts";
import type { JudgedResponse, Keep } from "./options.ts";

/** Statuses that mean that nothing was done, and that the same request may succeed later. */
const NOTHING_DONE: ReadonlySet<number> = new Set([401, 403, 408, 425, 429]);

const DECISIONS: readonly KeepDecision[] = ["keep", "release", "unknown", "marker"];

/** The option `keep` decides. Otherwise the default applies: failures release the key, other responses are kept. */
export function decide<Native>(
  response: HttpResponse,
  keep: Keep<Native> | undefined,
  native: Native,
  ifFailed: () => FailureDisposition,
): KeepDecision {
  return chosen(response, keep, native) ?? defaultDecision(judgedStatus(response), ifFailed);
}

function chosen<Native>(
  response: HttpResponse,
  keep: Keep<Native> | undefined,
  native: Native,
): KeepDecision | undefined {
  if (typeof keep !== "function") return chosenByStatus(judgedStatus(response), keep);
  // If the function throws, or returns anything but a decision (a promise, for example), the default applies.
  const answer = harmless(() => keep(toJudgedResponse(response), native));
  return DECISIONS.find((decision) => decision === answer);
}

/** Thrown work is a failure, whatever its protocol calls it. */
function judgedStatus({ status, isFailure = false }: HttpResponse): number {
  return isFailure ? Math.max(status, 500) : status;
}

/** The decision of the option `keep`, if the status alone determines it. */
export function chosenByStatus(status: number, keep: Keep<never> | undefined): KeepDecision | undefined {
  if (typeof keep === "string" || keep === undefined) return keep;
  if (typeof keep === "function") return undefined;
  return keep[status] ?? keep[`${Math.floor(status / 100)}xx` as "5xx"];
}

function defaultDecision(status: number, ifFailed: () => FailureDisposition): KeepDecision {
  if (NOTHING_DONE.has(status)) return "release";
  if (status < 500) return "keep";
  const failed = ifFailed();
  return failed === "remember" ? "keep" : failed;
}

export function toJudgedResponse(response: HttpResponse): JudgedResponse {
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
