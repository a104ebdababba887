/** What the two flows that are written by hand share: how a repeated request is recognised and answered. */
import { hash } from "node:crypto";

export const WINDOW_MS = 600_000;

/** The digest covers the duration and the requester of a hold, and not its key. */
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
