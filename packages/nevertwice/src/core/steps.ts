/**
 * The steps of one attempt. Each finished step is kept in the record before the next one may begin, so a later attempt
 * repeats at most the step that was in flight:
 *
 *   attempt 1   charge ── kept ── ship ── kept ── mail ──╳ crash
 *   attempt 2   charge    skipped ship    skipped mail ── kept ── done
 *
 * A later attempt must ask for the same steps in the same order. One that asks for another step at the same position runs
 * code that does not fit what was done, so it ends `unknown`, for an operator to decide.
 */
import { type EncodedStep, encodeStep, stepBytes } from "./encoded-step.ts";
import { isNevertwiceError, type NevertwiceError } from "./errors.ts";
import { checkedPart } from "./identity.ts";
import type { FinishedStep } from "./kept-steps.ts";
import type { Lease } from "./lease.ts";
import { about, type EventDetails } from "./observer.ts";
import { decodeOutcome } from "./outcome.ts";
import { outcomeLimit, type Ports } from "./ports.ts";
import type { Settlement } from "./round.ts";
import { reasonIn, type StepErrorCode, stepError, stepFailure } from "./step-errors.ts";
import { commitStep } from "./step-transaction.ts";
import type { Store } from "./store.ts";
import { callWithin, pauseMs } from "./store-call.ts";
import type { Attempt } from "./work.ts";

type KeepStep = NonNullable<Store["keepStep"]>;
type PerformStep = (keepStep: KeepStep, position: number) => Promise<unknown>;

export class Steps {
  readonly #ports: Ports;
  readonly #settlement: Settlement;
  readonly #lease: Lease;
  /** The finished steps, of earlier attempts and of this one. */
  readonly #kept: FinishedStep[];
  /** The names that the work has asked for so far. Their number is the position of the next step. */
  readonly #names = new Set<string>();
  #bytes = 0;
  #running: string | undefined;
  #stuck: string | undefined;
  #isEnded = false;

  constructor(ports: Ports, settlement: Settlement, lease: Lease) {
    this.#ports = ports;
    this.#settlement = settlement;
    this.#lease = lease;
    this.#kept = [...(settlement.steps ?? [])];
    for (const step of this.#kept) this.#bytes += stepBytes(step);
  }

  /** Whether a step has begun and its outcome is not kept yet. */
  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  restart(): void {
    this.#names.clear();
  }

  /** The work has ended. Returns why no attempt can continue the kept steps, if that is so. */
  end(): string | undefined {
    this.#isEnded = true;
    return this.#stuck;
  }

  run(name: string, work: () => unknown): Promise<unknown> {
    return this.#start(name, work, async (keepStep, position) => {
      const value = await work();
      // Work without a claim (`onUnavailable: "proceed"`) has nothing to keep its steps under.
      return this.#settlement.isUnclaimed ? value : this.#keep(keepStep, name, value, position);
    });
  }

  /** The same for a step whose work writes in a transaction of `database`, which also keeps the step. */
  transact(
    name: string,
    database: unknown,
    work: (tx: unknown) => unknown,
    attempt: Attempt,
  ): Promise<unknown> {
    return this.#start(name, work, (_, position) =>
      this.#transact(name, database, work, { attempt, position }),
    );
  }

  #start(name: string, work: unknown, perform: PerformStep): Promise<unknown> {
    const running = this.#run(name, work, perform);
    // The work may have ended without waiting for this step. Then no one is left to handle its failure.
    running.catch(() => {});
    return running;
  }

  async #run(name: string, work: unknown, perform: PerformStep): Promise<unknown> {
    const keepStep = this.#requireKeepStep();
    this.#check(name, work);
    const position = this.#names.size;
    const kept = this.#kept[position];
    if (kept !== undefined) return this.#skip(name, kept, position);
    this.#running = name;
    try {
      // A step that throws is not kept: the work may try it again.
      const result = await perform(keepStep, position);
      this.#names.add(name);
      return result;
    } finally {
      this.#running = undefined;
    }
  }

  #requireKeepStep(): KeepStep {
    const { store } = this.#ports;
    if (this.#settlement.isInTransaction)
      throw this.#error(
        "options-invalid",
        "attempt.step was called in a transaction, which holds the record and keeps all of its work or none; write with the transaction itself.",
      );
    if (store.keepStep !== undefined) return store.keepStep.bind(store);
    throw this.#error(
      "options-invalid",
      "this store cannot keep steps, which attempt.step needs: it has no keepStep, or its tables have not been migrated to this version.",
    );
  }

  #check(name: string, work: unknown): void {
    checkedPart(name, "the name of a step", "options-invalid");
    if (typeof work !== "function")
      throw this.#error("options-invalid", `the work of step ${JSON.stringify(name)} is not a function.`);
    if (this.#stuck !== undefined) throw this.#failure("unknown", this.#stuck);
    if (this.#isEnded || this.#lease.isLost()) throw this.#lost();
    if (this.#running !== undefined)
      throw this.#error(
        "options-invalid",
        `step ${JSON.stringify(name)} began while step ${JSON.stringify(this.#running)} was running; await each step before the next one.`,
      );
    if (this.#names.has(name))
      throw this.#error(
        "options-invalid",
        `this attempt has two steps called ${JSON.stringify(name)}; give each step its own name.`,
      );
    const { maxSteps } = this.#settlement.call.policy;
    if (this.#names.size >= maxSteps)
      throw this.#error(
        "options-invalid",
        `step ${JSON.stringify(name)} is one more than the ${maxSteps} steps that maxSteps allows.`,
      );
  }

  /** The step is finished. */
  #skip(name: string, kept: FinishedStep, position: number): unknown {
    if (kept.name !== name) {
      this.#stuck = `step ${position + 1} is called ${JSON.stringify(name)}, but an earlier run of the work finished ${JSON.stringify(kept.name)} there. Check what was done, then resolve or forget the key.`;
      throw this.#failure("unknown", this.#stuck);
    }
    this.#names.add(name);
    this.#emit({
      kind: "step-skipped",
      fence: this.#settlement.fence,
      step: name,
      position: position + 1,
    });
    const outcome = decodeOutcome(kept.outcome);
    if (outcome.kind === "value") return outcome.value;
    const reason = outcome.kind === "not-kept" ? outcome.reason : "unreadable";
    throw this.#failure(
      "not-kept",
      `step ${JSON.stringify(name)} is done and was not repeated, but its outcome cannot be replayed (${reason}).`,
    );
  }

  /** Keeps the outcome, and returns it as a later attempt will get it. */
  async #keep(keepStep: KeepStep, name: string, value: unknown, position: number): Promise<unknown> {
    const encoded = this.#encode(name, value);
    if (!(await this.#send(keepStep, name, encoded.text))) throw this.#overtaken();
    return this.#finish(name, encoded, position);
  }

  /** The step and its effect commit together, or neither does. */
  async #transact(
    name: string,
    database: unknown,
    work: (tx: unknown) => unknown,
    { attempt, position }: { readonly attempt: Attempt; readonly position: number },
  ): Promise<unknown> {
    const runner = this.#requireRunner()(this.#ports.store, database, (tx) => work(tx));
    let encoded: EncodedStep | undefined;
    const end = await commitStep(this.#ports, this.#settlement, this.#lease, {
      runner,
      attempt,
      encode: (value) => {
        encoded = this.#encode(name, value);
        return { step: name, outcome: encoded.text };
      },
    });
    switch (end.status) {
      case "committed":
        return this.#finish(name, encoded as EncodedStep, position);
      case "threw":
        throw end.thrown;
      case "failed":
        throw this.#error(
          "unavailable",
          `step ${JSON.stringify(name)} was rolled back, or did not begin: ${reasonIn(end.error)}`,
          end.error,
        );
      case "not-found":
      case "lost":
        throw this.#overtaken();
      case "unknown": {
        this.#emit({ kind: "unavailable", during: "step", cause: end.cause });
        throw this.#undecided(
          `it is not known whether step ${JSON.stringify(name)} was committed: ${reasonIn(end.cause)}`,
          end.cause,
        );
      }
    }
  }

  #requireRunner(): NonNullable<Ports["runnerFor"]> {
    if (this.#settlement.isUnclaimed)
      throw this.#error(
        "unavailable",
        "this attempt runs without a claim, because the store did not answer; a step in a transaction needs the claim's record.",
      );
    const { runnerFor } = this.#ports;
    if (runnerFor !== undefined) return runnerFor;
    throw this.#error("options-invalid", "this guard cannot run steps in transactions.");
  }

  #finish(name: string, encoded: EncodedStep, position: number): unknown {
    const kept = { name, outcome: encoded.text };
    this.#kept.push(kept);
    this.#bytes += stepBytes(kept);
    const { fence } = this.#settlement;
    this.#emit({ kind: "step-kept", fence, step: name, position: position + 1, notKept: encoded.detail });
    // The step is kept, but the next effect must not start: a successor may have begun.
    if (this.#lease.isLost()) throw this.#lost();
    return encoded.value;
  }

  #encode(name: string, value: unknown): EncodedStep {
    const { policy, identity } = this.#settlement.call;
    const room = outcomeLimit(this.#ports, policy) - this.#bytes;
    return encodeStep({ name, value, room, operation: identity.parts.operation });
  }

  /**
   * Repeats the call until the store answers or the attempt is lost. It is sent at least once, even if the lease has ended:
   * as long as no other attempt took over, the next one can skip this step.
   */
  async #send(keepStep: KeepStep, name: string, outcome: string): Promise<boolean> {
    const { timer, random } = this.#ports;
    const { call, round } = this.#settlement;
    for (let tries = 0; ; tries++) {
      try {
        return await callWithin(this.#ports, call.policy.storeTimeoutMs, ({ signal }) =>
          keepStep({ id: call.identity.id, token: round.token, name, outcome, signal }),
        );
      } catch (cause) {
        if (tries === 0) this.#emit({ kind: "unavailable", during: "step", cause });
        if (isFinal(cause)) throw this.#refused(name, cause);
      }
      if (this.#lease.isLost() || this.#isEnded) throw this.#lost();
      await new Promise<void>((resolve) => void timer.after(pauseMs(tries, random), resolve));
      if (this.#lease.isLost() || this.#isEnded) throw this.#lost();
    }
  }

  /** The step is done and cannot be kept. No other step may follow it, and a retry would run it again. */
  #refused(name: string, cause: unknown): NevertwiceError {
    return this.#undecided(
      `step ${JSON.stringify(name)} is done, but the store refused to keep it: ${reasonIn(cause)}`,
      cause,
    );
  }

  /** No step may follow, whatever the work does about this error: the attempt ends unknown. */
  #undecided(why: string, cause: unknown): NevertwiceError {
    this.#stuck = why;
    return this.#failure("unknown", why, cause);
  }

  #overtaken(): NevertwiceError {
    this.#lease.lose("overtaken");
    return this.#lost();
  }

  #lost(): NevertwiceError {
    return this.#error("lease-lost", "this attempt lost its claim or has ended; start no further step.");
  }

  #failure(code: "unknown" | "not-kept", message: string, cause?: unknown): NevertwiceError {
    return stepFailure(this.#settlement.call.identity, code, message, cause);
  }

  #error(code: StepErrorCode, message: string, cause?: unknown): NevertwiceError {
    return stepError(this.#settlement.call.identity, code, message, cause);
  }

  #emit(details: EventDetails): void {
    this.#ports.emit?.({ ...about(this.#settlement.call.identity), ...details });
  }
}

/** Whether the store would refuse every repetition too. A store that is full, or has lost its keys, may recover. */
function isFinal(error: unknown): boolean {
  return isNevertwiceError(error, "store-unsafe") || isNevertwiceError(error, "options-invalid");
}
