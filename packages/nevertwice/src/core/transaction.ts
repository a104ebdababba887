/**
 * An attempt whose work and completion commit in one transaction of the application's database. The claim is committed
 * already, with a lease that covers the whole transaction; `transaction/` runs the transaction, and this file turns its end
 * into the end of the attempt.
 *
 *   claim ── commits ──┐  BEGIN ── lock the record ── work ── complete ── COMMIT
 *                      └─ duplicates see `pending` ───────────────────────┘ from here on, the outcome
 */
import { type Attempt, endingFromThrow } from "./attempt.ts";
import { abandonUnrun, readRecord } from "./claim-round.ts";
import { type Ending, endingFromValue, type KeepLimits } from "./ending.ts";
import { toErrorSubject } from "./identity.ts";
import { type Lease, transactionLeaseMs } from "./lease.ts";
import { otherDatabase } from "./other-database.ts";
import { decodeOutcome } from "./outcome.ts";
import type { Policy } from "./policy.ts";
import type { Ports } from "./ports.ts";
import { reportCompletion } from "./report.ts";
import { type RunResult, refused, replay, toResult } from "./result.ts";
import type { Settlement } from "./round.ts";
import { completedRetention, settleAbandon, settleCompletion } from "./settlement.ts";
import type { TransactionRunner } from "./transaction-port.ts";

/** The policy of a call in a transaction: a lease for the wait for a connection, the transaction, and the answer about its end. */
export function transactionPolicy(policy: Policy): Policy {
  const leaseMs = transactionLeaseMs(policy);
  // The work never runs without its claim: the transaction's first statement needs the record.
  return { ...policy, leaseMs, maxRunMs: Math.max(leaseMs, policy.maxRunMs), onUnavailable: "refuse" };
}

/** An ending whose outcome is stored. */
export type CompletedEnding = Ending & { readonly kind: "complete"; readonly outcome: string };

export interface AttemptInTransaction {
  readonly handed: Attempt;
  readonly lease: Lease;
  readonly end: () => void;
  readonly limits: () => KeepLimits;
}

/** Runs the call's transaction under its claim, and tells the store how the attempt ended if the transaction did not. */
export async function finishInTransaction<T>(
  ports: Ports,
  runner: TransactionRunner,
  settlement: Settlement,
  { handed, lease, end, limits }: AttemptInTransaction,
): Promise<RunResult<T>> {
  const { call, round } = settlement;
  const { transactionMs, storeTimeoutMs, leaseMs } = call.policy;
  let completion: CompletedEnding | undefined;
  const { timer, random } = ports;
  const ended = await runner.run({
    timer,
    random,
    id: call.identity.id,
    operation: call.identity.parts.operation,
    token: round.token,
    attempt: handed,
    transactionMs,
    waitMs: storeTimeoutMs,
    encode(value) {
      const ending = endingFromValue(value, limits(), call) as CompletedEnding;
      completion = ending;
      return { outcome: ending.outcome, retentionMs: completedRetention(ports, settlement) };
    },
    expire: () => lease.lose("ran-too-long"),
    renew: () => lease.hold(leaseMs),
  });
  const isCut = lease.isLost();
  end();
  switch (ended.status) {
    case "committed":
      return committed(ports, settlement, completion as CompletedEnding);
    case "threw":
      return threw(ports, settlement, endingFromThrow(ended.thrown, call, handed, lease, limits()));
    case "failed":
      await settleAbandon(ports, settlement, { kind: "abandon", as: "unrun", thrown: undefined });
      return refused(ended.error, {
        identity: call.identity,
        advice: isCut ? "The transaction was rolled back." : "The transaction was rolled back; try again.",
      });
    case "not-found":
      return notFound(ports, settlement);
    case "lost":
      return { status: "lease-lost", value: undefined as T };
    case "unknown":
      ports.emit?.({
        operation: call.identity.parts.operation,
        keyHash: toErrorSubject(call.identity).keyHash as string,
        kind: "unavailable",
        during: "complete",
        cause: ended.cause,
      });
      await settleAbandon(ports, settlement, { kind: "abandon", as: "unknown", thrown: undefined });
      return { status: "unknown", fence: settlement.fence };
  }
}

function committed<T>(ports: Ports, settlement: Settlement, ending: CompletedEnding): RunResult<T> {
  const { call, fence, startedAt } = settlement;
  const ranMs = ports.timer.now() - startedAt;
  reportCompletion(
    ports.emit,
    { subject: call.identity, fence },
    { status: "recorded", ranMs, notKept: ending.notKept },
  );
  return toResult(ending, { status: "recorded" }, settlement);
}

async function threw<T>(ports: Ports, settlement: Settlement, ending: Ending): Promise<RunResult<T>> {
  if (ending.kind === "complete")
    return toResult(ending, await settleCompletion(ports, settlement, ending), settlement);
  await settleAbandon(ports, settlement, ending);
  throw ending.thrown;
}

/** The store knows whether the claim was lost, or whether the transaction looked for it in another database. */
async function notFound<T>(ports: Ports, { call, round }: Settlement): Promise<RunResult<T>> {
  const { identity } = call;
  const record = await readRecord(ports, call).catch(() => undefined);
  if (record?.token === round.token && record.state === "completed")
    return replay(decodeOutcome(record.outcome as string), call.decode);
  abandonUnrun(ports, call, round);
  if (record?.token === round.token) throw otherDatabase(identity);
  return refused(new Error("the claim was lost before the transaction began"), { identity });
}
