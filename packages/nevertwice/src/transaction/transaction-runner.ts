/**
 * Runs the work in one transaction with the completion of its record, or with a step of it. Owns the control flow: lock,
 * work, complete, commit; repeats a transaction that conflicted with another one, and finds out how a COMMIT without an
 * answer ended.
 *
 *   BEGIN ── lock ── work ── complete ── COMMIT ──▶ committed
 *     │       │       │         │          └─ no answer ─▶ wait for the record's lock, then read it: committed, rolled back or unknown
 *     │       │       │         └─ the work ended the transaction itself ─▶ unknown
 *     │       │       └─ threw ─▶ ROLLBACK
 *     │       └─ no such record ─▶ ROLLBACK; nothing was run
 *     └─ no connection in time ─▶ nothing was run
 */
import type { Attempt } from "../core/attempt.ts";
import { within } from "../core/background.ts";
import { pause } from "../core/backoff.ts";
import { enqueueWithin } from "../core/enqueue.ts";
import { NevertwiceError } from "../core/errors.ts";
import { pauseMs } from "../core/store-call.ts";
import type {
  CompletionAnswer,
  LastRun,
  RunText,
  StatementTransactions,
  TransactionWrite,
} from "../core/store-transactions.ts";
import type { ClaimedAttempt, TransactionEnd, TransactionRunner } from "../core/transaction-port.ts";
import type { TransactionDatabase } from "./database.ts";
import { whileInside } from "./nesting.ts";
import { slotsFor, type TransactionSlots } from "./transaction-slots.ts";

export type TransactionWork<Tx, T> = (tx: Tx, attempt: Attempt) => T | PromiseLike<T>;

/** How often a transaction is run that conflicts with others, or whose connection was lost. */
const MAX_TRIES = 5;
/**
 * How much longer the server lets a transaction run, for a process that no longer can end it. If both ended it at the same
 * moment, postgres.js might write to a connection that is gone, and throw an error that no caller can catch.
 */
const SERVER_GRACE_MS = 1_000;
/** How long the server may take to end the connection of a transaction that took too long. */
const END_MS = 1_000;

/** `repeat`: nothing is committed, and the same transaction may succeed. `otherwise` is how it ends after the last try. */
type TryEnd = TransactionEnd | { readonly status: "repeat"; readonly otherwise: TransactionEnd };

export function createTransactionRunner<Tx>(
  transactions: StatementTransactions,
  database: TransactionDatabase<Tx>,
  work: TransactionWork<Tx, unknown>,
): TransactionRunner {
  const slots = slotsFor(transactions, database.source);
  return {
    async run(claimed) {
      const { timer, random, attempt, transactionMs } = claimed;
      const endsAt = timer.now() + transactionMs;
      for (let tries = 1; ; tries++) {
        const transaction = new TransactionTry(transactions, database, claimed, endsAt);
        const end = await transaction.run(work, slots);
        if (end.status === "committed" && !transaction.isStep) transactions.announce(claimed.id);
        if (end.status !== "repeat") return end;
        if (tries >= MAX_TRIES || timer.now() >= endsAt || attempt.signal.aborted) return end.otherwise;
        await pause(timer, pauseMs(tries, random), attempt.signal);
      }
    },
  };
}

interface BegunTransaction<Tx> {
  readonly tx: Tx;
  readonly run: RunText;
  readonly last: LastRun;
}

type TransactionPhase = "connecting" | "locking" | "working" | "completing" | "committing";

/** One try of a transaction. */
class TransactionTry<Tx> {
  readonly #transactions: StatementTransactions;
  readonly #database: TransactionDatabase<Tx>;
  readonly #claimed: ClaimedAttempt;
  readonly #endsAt: number;
  #phase: TransactionPhase = "connecting";
  /** How the transaction ends whatever its adapter rejects with: the reason is known here. */
  #stopped: TransactionEnd | undefined;
  #written: TransactionWrite | undefined;

  constructor(
    transactions: StatementTransactions,
    database: TransactionDatabase<Tx>,
    claimed: ClaimedAttempt,
    endsAt: number,
  ) {
    this.#transactions = transactions;
    this.#database = database;
    this.#claimed = claimed;
    this.#endsAt = endsAt;
  }

  /** Whether the transaction keeps a step, and leaves the record pending. */
  get isStep(): boolean {
    return this.#step() !== undefined;
  }

  #step(): string | undefined {
    return this.#written !== undefined && "step" in this.#written ? this.#written.step : undefined;
  }

  async run(work: TransactionWork<Tx, unknown>, slots: TransactionSlots | undefined): Promise<TryEnd> {
    const { timer, waitMs, transactionMs } = this.#claimed;
    const leftMs = Math.max(1, Math.min(transactionMs, this.#endsAt - timer.now()));
    let cancel = () => {};
    let giveUp: (error: Error) => void = () => {};
    const givenUp = new Promise<never>((_, reject) => {
      giveUp = reject;
    });
    const waitFor = (ms: number, end: () => void) => {
      cancel();
      cancel = timer.after(ms, end);
    };
    waitFor(Math.min(waitMs, leftMs), () => {
      const error = new Error(`the database had no connection for the transaction within ${waitMs} ms`);
      this.#stop({ status: "failed", error });
      giveUp(error);
    });
    const begin = async () => {
      this.#requireWanted();
      return this.#database.transact(
        async (tx, run, runAndCommit) => {
          this.#requireWanted();
          cancel();
          const last = { run: runAndCommit ?? run, commits: runAndCommit !== undefined };
          await this.#untilDeadline(run, () => this.#steps({ tx, run, last }, work), giveUp);
          if (last.commits) return;
          waitFor(waitMs, () => giveUp(new Error(`the database did not answer COMMIT within ${waitMs} ms`)));
        },
        { waitMs, transactionMs: leftMs },
      );
    };
    const transaction = slots === undefined ? begin() : slots.run(begin);
    try {
      await Promise.race([transaction, givenUp]);
      return { status: "committed" };
    } catch (error) {
      transaction.catch(() => {});
      return this.#stopped ?? (await this.#judge(error));
    } finally {
      cancel();
    }
  }

  /** Throws if the caller has given up on a connection that came too late. */
  #requireWanted(): void {
    if (this.#stopped !== undefined) throw new Error("the transaction is no longer wanted");
  }

  #stop(end: TransactionEnd): void {
    this.#stopped ??= end;
  }

  /** Lock, work, complete. Rejects to roll back. */
  async #steps(begun: BegunTransaction<Tx>, work: TransactionWork<Tx, unknown>): Promise<void> {
    const { run } = begun;
    const { id, token, timer } = this.#claimed;
    this.#phase = "locking";
    const transactionMs = Math.ceil(Math.max(1, this.#endsAt - timer.now()) + SERVER_GRACE_MS);
    const lock = await this.#transactions.lock(run, { id, token, transactionMs });
    try {
      if (lock.status === "none") return this.#rollBack({ status: "not-found" });
      await this.#locked(begun, work, lock.mark);
    } finally {
      // On a connection that is lost there is nothing to put back.
      await this.#transactions.restore?.(run).catch(() => {});
    }
    this.#phase = "committing";
  }

  async #locked(
    { tx, run, last }: BegunTransaction<Tx>,
    work: TransactionWork<Tx, unknown>,
    mark: string,
  ): Promise<void> {
    const { attempt, operation, encode } = this.#claimed;
    this.#phase = "working";
    let value: unknown;
    try {
      value = await whileInside(this.#database.source, operation, () =>
        enqueueWithin(attempt, tx, () => work(tx, attempt)),
      );
    } catch (thrown) {
      // Work that committed by itself and threw afterwards must not look as if it had been rolled back.
      if (this.#transactions.judgeFailure(thrown) !== "repeat" && (await this.#hasLeft(run, mark)))
        return this.#rollBack(leftEnd(thrown));
      throw thrown;
    }
    this.#written = encode(value);
    this.#phase = last.commits ? "committing" : "completing";
    const answer = await this.#write(last, this.#written, mark);
    if (answer === "lost") return this.#rollBack({ status: "lost" });
    if (answer === "left") return this.#rollBack(leftEnd(undefined));
  }

  #write(last: LastRun, write: TransactionWrite, mark: string): Promise<CompletionAnswer> {
    const { id, token } = this.#claimed;
    if (!("step" in write)) return this.#transactions.complete(last, { id, token, ...write }, mark);
    return this.#transactions.keepStep(last, { id, token, name: write.step, outcome: write.outcome }, mark);
  }

  async #hasLeft(run: RunText, mark: string): Promise<boolean> {
    return (await this.#transactions.isSame(run, mark).catch(() => true)) === false;
  }

  #rollBack(end: TransactionEnd): never {
    this.#stop(end);
    throw new Error("the transaction is rolled back");
  }

  /**
   * Ends a transaction that takes too long. The work may ignore its signal and go on, so its connection is ended on the
   * server: no later statement of the work may run outside the transaction.
   */
  async #untilDeadline(
    run: RunText,
    steps: () => Promise<void>,
    giveUp: (error: Error) => void,
  ): Promise<void> {
    const { timer, transactionMs, expire } = this.#claimed;
    let cancel = () => {};
    const overdue = new Promise<never>((_, reject) => {
      cancel = timer.after(Math.max(0, this.#endsAt - timer.now()), () => {
        if (this.#phase === "committing") return;
        const error = overdueError(transactionMs);
        this.#stop({ status: "failed", error });
        expire();
        const ended = this.#database.refusesLateStatements
          ? Promise.resolve()
          : this.#transactions.endConnection(run).catch(() => {});
        void within(timer, END_MS, ended).then(() => {
          reject(error);
          giveUp(error);
        });
      });
    });
    const running = steps();
    running.catch(() => {});
    try {
      await Promise.race([running, overdue]);
    } finally {
      cancel();
    }
  }

  /** What an error means that the adapter rejected with. */
  async #judge(error: unknown): Promise<TryEnd> {
    const failure = this.#transactions.judgeFailure(error);
    const isWorks = this.#phase !== "connecting" && this.#phase !== "locking";
    const end: TransactionEnd = isWorks ? { status: "threw", thrown: error } : { status: "failed", error };
    if (failure === "repeat") return { status: "repeat", otherwise: end };
    if (this.#phase !== "committing" || failure === "rolled-back") return end;
    return this.#settle(error);
  }

  /** COMMIT was not answered. The record tells, but only once no transaction holds its lock any more. */
  async #settle(cause: unknown): Promise<TryEnd> {
    const { id, token, waitMs } = this.#claimed;
    const asked = { id, token, waitMs, step: this.#step() };
    const state = await this.#transactions.settle(asked).catch(() => "locked" as const);
    switch (state) {
      case "completed":
        return { status: "committed" };
      case "pending":
        return { status: "repeat", otherwise: { status: "failed", error: cause } };
      case "lost":
        return { status: "lost" };
      case "locked":
        return { status: "unknown", cause };
    }
  }
}

/** The work ended its transaction itself. */
export function leftEnd(cause: unknown): TransactionEnd {
  const reason = new Error(
    "the work ended the transaction that it was given, by a COMMIT or by a statement that commits implicitly; a part of it is committed without its record",
    { cause },
  );
  return { status: "unknown", cause: reason };
}

function overdueError(transactionMs: number): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    `the transaction took longer than transactionMs (${transactionMs} ms) and was ended.`,
  );
}
