/** Stores that cases put in front of the real one: one delays completions, one makes an attempt lose its key. */
import type { ClaimRequest, Store } from "../../core/store.ts";
import type { AppSetup, CaseGate } from "./stage.ts";

/** Longer than any case, so that the slow store does not cause a timeout. */
const PATIENT = { completeWaitMs: 60_000, storeTimeoutMs: 60_000 } as const;

/** A store whose completions wait until the gate is open. `asked` counts the completions. */
export function completingAt(gate: CaseGate): { readonly given: AppSetup; asked(): number } {
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

/** A store that can make the first attempt lose its key. */
export function overtaking(): { readonly given: AppSetup; loseFirst(): Promise<void> } {
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
