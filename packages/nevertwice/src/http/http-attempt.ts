/** The attempt that a handler runs under: the engine's attempt, plus the handler's own decision about its response. */
import type { Attempt } from "../core/attempt.ts";
import type { DatabaseHandle, TransactionOf } from "../core/database-handle.ts";

/**
 * What happens to the key after the handler has responded. `keep`: duplicates get this response. `release`: the next
 * request runs the handler again. `unknown`: the outcome is unknown. `marker`: duplicates get status and headers, but no
 * body.
 */
export type KeepDecision = "keep" | "release" | "unknown" | "marker";

/** The attempt of a request, as the handler gets it. */
export interface HttpAttempt extends Attempt {
  /** What the key belongs to: the option `operation`, or the method and the path. */
  readonly operation: string;
  /** The key that the client sent, without its quotes. */
  readonly key: string;
  /**
   * Runs `work` in a transaction of the store's database, and keeps its value as a step in that transaction. The response
   * does not exist yet, and completes the record later. After a crash in between, the retry skips `work` and builds the
   * response again from the kept value. The same as `step(name, database, work)`.
   */
  transaction<T, Handle extends DatabaseHandle>(
    name: string,
    database: Handle,
    work: (tx: TransactionOf<Handle>) => T | PromiseLike<T>,
  ): Promise<T>;
  /** Decides about this one response. Call it before you respond: `keep("release")` after a check that failed. */
  keep(decision: KeepDecision): void;
}

/** Checks the time that a handler chose, and returns how long the guard keeps the record. */
export type KeepFor = (ms: number) => number;

const ATTEMPTS = new WeakMap<object, HttpAttempt>();

/** The attempt of a request whose handler has a signature that we cannot extend. */
export function attemptFor(native: object): HttpAttempt | undefined {
  return ATTEMPTS.get(native);
}

export function rememberAttempt(native: object, attempt: HttpAttempt): void {
  ATTEMPTS.set(native, attempt);
}

/** The attempt of the handler that is running. The exchange reads the handler's decision from it. */
export class RunningHttpAttempt implements HttpAttempt {
  readonly operation: string;
  readonly key: string;
  readonly step: Attempt["step"];
  decision: KeepDecision | undefined;
  /** How long the response answers, if the handler has chosen it. */
  keptMs: number | undefined;
  readonly #keepFor: KeepFor;
  readonly #attempt: Attempt;
  #notDone: unknown;

  constructor(
    attempt: Attempt,
    { operation, key }: { readonly operation: string; readonly key: string },
    keepFor: KeepFor,
  ) {
    this.#attempt = attempt;
    this.#keepFor = keepFor;
    this.step = attempt.step;
    this.operation = operation;
    this.key = key;
  }

  get fence(): number {
    return this.#attempt.fence;
  }

  get number(): number {
    return this.#attempt.number;
  }

  get signal(): AbortSignal {
    return this.#attempt.signal;
  }

  deriveKey(name: string): string {
    return this.#attempt.deriveKey(name);
  }

  transaction<T, Handle extends DatabaseHandle>(
    name: string,
    database: Handle,
    work: (tx: TransactionOf<Handle>) => T | PromiseLike<T>,
  ): Promise<T> {
    return this.step(name, database, work);
  }

  enqueue(...message: Parameters<Attempt["enqueue"]>): ReturnType<Attempt["enqueue"]> {
    return this.#attempt.enqueue(...message);
  }

  renew(): Promise<boolean> {
    return this.#attempt.renew();
  }

  notDone(cause?: unknown): Error {
    const error = this.#attempt.notDone(cause);
    this.#notDone = error;
    // A framework may turn the thrown error into a response. That response must not be kept either.
    this.decision ??= "release";
    return error;
  }

  /** Whether `thrown` is the error that `notDone` returned. */
  hasSaidNotDone(thrown: unknown): boolean {
    return thrown !== undefined && thrown === this.#notDone;
  }

  keepFor(ms: number): void {
    this.#attempt.keepFor(this.#keepFor(ms));
    this.keptMs = ms;
  }

  keep(decision: KeepDecision): void {
    this.decision = decision;
  }
}
