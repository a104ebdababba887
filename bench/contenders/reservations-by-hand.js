/** What the two flows that are written by hand have in common: how a request is known again, and how it is answered then. */
import { hash } from "node:crypto";

export const WINDOW_MS = 600_000;

/** How long a hold lasts and who holds it are part of the request, its key is not. */
export function digestOf(action, parameters) {
  return hash("sha256", JSON.stringify([action, parameters]), "hex");
}

/** `kept` is the row of a key that was used before. */
export function answerAgain(kept, digest) {
  return kept.digest === digest ? JSON.parse(kept.answer) : refusal("token-collision");
}

export function refusal(reason) {
  return { ok: false, reason };
}

/** Why a commitment could not be confirmed; `found` is its row. */
export function whyNotConfirmed(found) {
  if (found === undefined) return refusal("not-known");
  return refusal(found.state === "held" ? "window-elapsed" : "not-held");
}
