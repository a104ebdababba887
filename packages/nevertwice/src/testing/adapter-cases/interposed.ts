/** What cases put between the layer and the records: a completion that is held up, and an attempt that is overtaken. */
import type { ClaimRequest, Store } from "../../core/store.ts";
import type { Gate, Given } from "./stage.ts";

/** Longer than any case: here the store is slow, and nobody gives it up. */
const PATIENT = { completeWaitMs: 60_000, storeTimeoutMs: 60_000 } as const;

/** A store that completes only once the gate is open; `asked` counts the completions that it was asked for. */
export function completingAt(gate: Gate): { readonly given: Given; asked(): number } {
  let asked = 0;
  const store = (inner: Store): Store => ({
    ...inner,
    async complete(request) {
      asked++;
      await gate.opened;
      return inner.complete(request);
    },
  });
  return { given: { store, options: PATIENT }, asked: () => asked };
}

/** A store in which the attempt that claimed first can be made to lose its key. */
export function overtaking(): { readonly given: Given; loseFirst(): Promise<void> } {
  let records: Store | undefined;
  let first: ClaimRequest | undefined;
  const store = (inner: Store): Store => {
    records = inner;
    return {
      ...inner,
      claim(request) {
        first ??= request;
        return inner.claim(request);
      },
    };
  };
  return {
    given: { store },
    async loseFirst() {
      const { id, token } = first as ClaimRequest;
      await (records as Store).abandon({ id, token, as: "unknown" });
    },
  };
}
