/**
 * Answers without a promise, which a store of this library may offer to the engine beside its public methods. A store in
 * this process needs no time limit, no retry and no turn of the event loop, and it can keep values instead of text.
 */
import type { KeptOutcome } from "./outcome.ts";
import type { ClaimAnswer, ClaimRequest, CompleteRequest, Store } from "./store.ts";

export interface DirectStore {
  /**
   * What `Store.claim` would answer, applied at once. Undefined if the store cannot tell here: then it has changed nothing,
   * and the engine calls `Store.claim`. A store may answer `completed` only, from a read. Whatever it throws counts as
   * undefined.
   */
  claim(request: ClaimRequest): ClaimAnswer<KeptOutcome> | undefined;
  /** What `Store.complete` would answer, applied at once; absent if the store keeps text. False and a throw make the engine call `Store.complete`. */
  readonly complete?: ((request: CompleteRequest<KeptOutcome>) => boolean) | undefined;
}

/** What was offered for a store, and the public methods that it stands for. */
interface Offer {
  readonly direct: DirectStore;
  readonly claim: Store["claim"];
  readonly complete: Store["complete"];
}

/** By the store object itself, so that a store that wraps another one, or copies its members, never has its answers. */
const offers = new WeakMap<Store, Offer>();

/** Offers direct answers for the store, and returns it. */
export function offerDirect<S extends Store>(store: S, direct: DirectStore): S {
  offers.set(store, { direct, claim: store.claim, complete: store.complete });
  return store;
}

/** Undefined if the store has none, or if its methods were replaced, as tests do: then the engine calls those. */
export function directStore(store: Store): DirectStore | undefined {
  const offer = offers.get(store);
  if (offer === undefined) return undefined;
  return offer.claim === store.claim && offer.complete === store.complete ? offer.direct : undefined;
}
