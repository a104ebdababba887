/** Seals the outcomes, those of steps too, that are written and read in transactions of the application. */
import type { ClaimAnswer, ClaimRequest, CompleteRequest } from "../core/store.ts";
import type { StoreTransactions, TransactionWrite } from "../core/store-transactions.ts";
import type { Keyring } from "./keyring.ts";
import { seal, stepId, unseal } from "./seal.ts";

export function sealedTransactions(
  transactions: StoreTransactions,
  keyring: () => Keyring,
): StoreTransactions {
  const sealedRequest = (request: CompleteRequest): CompleteRequest => ({
    ...request,
    outcome: seal(keyring(), request.id, request.outcome),
  });
  const sealedStep = (id: string, name: string, outcome: string) =>
    seal(keyring(), stepId(id, name), outcome);
  const sealedWrite = (id: string, write: TransactionWrite): TransactionWrite => {
    const { outcome } = write;
    if ("step" in write) return { ...write, outcome: sealedStep(id, write.step, outcome) };
    return { ...write, outcome: seal(keyring(), id, outcome) };
  };
  const opened = ({ id }: ClaimRequest, answer: ClaimAnswer): ClaimAnswer =>
    answer.status === "completed" ? { ...answer, outcome: unseal(keyring(), id, answer.outcome) } : answer;

  if (transactions.kind === "connection")
    return {
      ...transactions,
      transact: (request, work) => transactions.transact(request, () => sealedWrite(request.id, work())),
      claim: (request: ClaimRequest) => opened(request, transactions.claim(request)),
      complete: (request: CompleteRequest) => transactions.complete(sealedRequest(request)),
    };
  return {
    ...transactions,
    claim: async (run, request) => opened(request, await transactions.claim(run, request)),
    complete: (run, request, mark) => transactions.complete(run, sealedRequest(request), mark),
    keepStep(run, request, mark) {
      const outcome = sealedStep(request.id, request.name, request.outcome);
      return transactions.keepStep(run, { ...request, outcome }, mark);
    },
  };
}
