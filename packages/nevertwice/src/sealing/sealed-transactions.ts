/** Seals the outcomes that are written and read in transactions of the application. */
import type { ClaimAnswer, ClaimRequest, CompleteRequest } from "../core/store.ts";
import type { StoreTransactions } from "../core/store-transactions.ts";
import type { Keyring } from "./keyring.ts";
import { seal, unseal } from "./seal.ts";

export function sealedTransactions(
  transactions: StoreTransactions,
  keyring: () => Keyring,
): StoreTransactions {
  const sealedRequest = (request: CompleteRequest): CompleteRequest => ({
    ...request,
    outcome: seal(keyring(), request.id, request.outcome),
  });
  const opened = ({ id }: ClaimRequest, answer: ClaimAnswer): ClaimAnswer =>
    answer.status === "completed" ? { ...answer, outcome: unseal(keyring(), id, answer.outcome) } : answer;

  if (transactions.kind === "connection")
    return {
      ...transactions,
      transact: (request, work) =>
        transactions.transact(request, () => {
          const { outcome, retentionMs } = work();
          return { outcome: seal(keyring(), request.id, outcome), retentionMs };
        }),
      claim: (request: ClaimRequest) => opened(request, transactions.claim(request)),
      complete: (request: CompleteRequest) => transactions.complete(sealedRequest(request)),
    };
  return {
    ...transactions,
    claim: async (run, request) => opened(request, await transactions.claim(run, request)),
    complete: (run, request, mark) => transactions.complete(run, sealedRequest(request), mark),
  };
}
