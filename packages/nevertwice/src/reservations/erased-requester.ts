/** Decides the erasure of one requester. Pure, like decision.ts. */
import type { ActionRequest } from "./action-request.ts";
import { type Answer, rejection } from "./answer.ts";
import { isErased } from "./commitment.ts";
import type { WorkingSet } from "./working-set.ts";

/** Removes the requester and its salt from a commitment that is over, and from the key that placed it. */
export function eraseRequester(rows: WorkingSet, request: ActionRequest): Answer {
  const { erasesKey } = request;
  const found = rows.commitment(String(request.parameters.id));
  if (found === undefined) return rejection("not-known", "no commitment has this id");
  if (found.state === "held")
    return rejection("invalid-request", "the commitment is held; end it before its requester is erased");
  if (isErased(found)) return rejection("invalid-request", "the requester is already erased");
  const kept = erasesKey === undefined ? undefined : rows.key(erasesKey);
  // Nothing is written, so that no empty row of the key stays behind.
  if (erasesKey !== undefined && kept === undefined) throw new Error("the key was purged meanwhile");
  const isPlacing = kept?.commitment === found.id && kept.action === "placeHold";
  if (isPlacing) {
    const { requester: _, ...parameters } = kept.parameters;
    rows.putKey({ ...kept, parameters, salt: undefined });
  }
  rows.putCommitment(
    { ...found, requester: "", requesterSalt: "" },
    { kind: "erased", by: request, detail: { keys: isPlacing ? [kept.id] : [] } },
  );
  return { ok: true };
}
