/**
 * A step whose effect commits together with the step, in one transaction of the application's database. The attempt has a
 * claim that is renewed while its work runs, and the transaction locks the record of that claim. So the lease is set for the
 * whole transaction first, and no renewal is sent while it runs:
 *
 *   renewals ── lease for the transaction ─┐                                         ┌─ renewals
 *                                          └ BEGIN ── lock ── work ── step ── COMMIT ┘
 */
import { readRecord } from "./claim-round.ts";
import { type Lease, transactionLeaseMs } from "./lease.ts";
import { otherDatabase } from "./other-database.ts";
import type { Ports } from "./ports.ts";
import type { Settlement } from "./round.ts";
import type { StepEnd } from "./store-transactions.ts";
import type { TransactionEnd, TransactionRunner } from "./transaction-port.ts";
import type { Attempt } from "./work.ts";

export interface StepTransaction {
  readonly runner: TransactionRunner;
  readonly attempt: Attempt;
  encode(value: unknown): StepEnd;
}

/** Never rejects. */
export async function commitStep(
  ports: Ports,
  settlement: Settlement,
  lease: Lease,
  { runner, attempt, encode }: StepTransaction,
): Promise<TransactionEnd> {
  const { call, round } = settlement;
  const { transactionMs, storeTimeoutMs, leaseMs } = call.policy;
  const renew = () => lease.hold(Math.max(leaseMs, transactionLeaseMs(call.policy)));
  try {
    if (!(await renew())) return { status: "lost" };
    const end = await runner.run({
      ...ports,
      id: call.identity.id,
      operation: call.identity.parts.operation,
      token: round.token,
      attempt,
      transactionMs,
      waitMs: storeTimeoutMs,
      encode,
      // The step is rolled back, and the attempt goes on: its work decides what a step without an outcome means.
      expire() {},
      renew,
    });
    return end.status === "not-found" ? await notFound(ports, settlement) : end;
  } catch (error) {
    return { status: "failed", error };
  } finally {
    lease.resume();
  }
}

/** Nothing was run. The store knows whether the claim was lost, or whether the transaction looked for it in another database. */
async function notFound(ports: Ports, { call, round }: Settlement): Promise<TransactionEnd> {
  const record = await readRecord(ports, call);
  return record?.token === round.token && record.state !== "completed"
    ? { status: "threw", thrown: otherDatabase(call.identity) }
    : { status: "lost" };
}
