/**
 * Who may act. The application's `authorize` decides by the action, the commitment and the actor, before the transaction: what
 * a commitment is about never changes, and an actor's proof belongs to the call, not to the records. A refusal is kept in the
 * journal, under a key of its own: the caller's key stays unused, so that another actor may use it.
 */
import { NevertwiceError } from "../core/errors.ts";
import { type ActionName, type ActionRequest, createDeniedRequest } from "./action-request.ts";
import { DENIALS, type Denial, type Rejected, rejection } from "./answer.ts";
import type { KeptCommitment, ReservationStore, Rules } from "./store.ts";

/** What the option `authorize` is asked. */
export interface ActorQuestion {
  /** The action that is to be carried out. */
  readonly action: ActionName;
  /** Who asks, as the request says; undefined if it says nothing. */
  readonly actor: string | undefined;
  /** What the action is about, as it was a moment ago. Undefined for `placeHold`, for resources, and if there is none. */
  readonly commitment: KeptCommitment | undefined;
  /** The resource that the action names. */
  readonly resource: unknown;
  /** Of `placeHold`. */
  readonly requester: unknown;
}

/** `false` means `not-authorized`. What it throws is answered `registry-unavailable`, and nothing is kept. */
export type Authorize = (question: ActorQuestion) => boolean | Denial | Promise<boolean | Denial>;

/** The request to carry out: the same, or one that keeps the refusal. A rejection if the actor could not be judged. */
export async function authorized(
  { get }: Pick<ReservationStore, "get">,
  { namespace }: Pick<Rules, "namespace">,
  authorize: Authorize,
  request: ActionRequest,
): Promise<ActionRequest | Rejected> {
  const { action, actor, parameters } = request;
  const { id, resource, requester } = parameters;
  let verdict: boolean | Denial;
  try {
    const { commitment } = typeof id === "string" ? await get(namespace, id) : { commitment: undefined };
    verdict = await authorize({ action, actor, commitment, resource, requester });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return rejection("registry-unavailable", `it is not known whether the actor may do this: ${why}`);
  }
  if (verdict === true) return request;
  return createDeniedRequest(request, toDenial(verdict));
}

function toDenial(verdict: false | Denial): Rejected {
  const reason = verdict === false ? "not-authorized" : verdict;
  if ((DENIALS as readonly unknown[]).includes(reason)) return rejection(reason, DETAILS[reason]);
  throw new NevertwiceError(
    "options-invalid",
    `authorize answered ${String(verdict)}; it must answer true, false, or one of ${DENIALS.join(", ")}.`,
  );
}

const DETAILS: Readonly<Record<Denial, string>> = {
  "not-authorized": "this actor may not do this",
  "proof-invalid": "the proof of who asks is not valid",
  "actor-unknown-in-registry": "no such actor is known",
};
