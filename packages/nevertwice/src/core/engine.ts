/** The engine behind every surface: checks the options, and offers the calls of applications and of operators. */

import { isStore } from "./argument-checks.ts";
import type { Work } from "./attempt.ts";
import { createBackground } from "./background.ts";
import { systemTimer, type Timer } from "./clock.ts";
import { FAULTS, type Fault } from "./durability.ts";
import { enqueueDoor, isOutbox } from "./enqueue.ts";
import { NevertwiceError } from "./errors.ts";
import { createExecutor, type ExecutedWork, type Executor } from "./executor.ts";
import { checkedPart, deriveKey } from "./identity.ts";
import { createLivePolicy, type LivePolicy, type Windows } from "./live-policy.ts";
import { NOTIFY, type Notify } from "./notify.ts";
import {
  type About,
  about,
  createAround,
  createEmit,
  createOrigin,
  type GuardEvent,
  type Observer,
  observersIn,
} from "./observer.ts";
import {
  createOperator,
  type ForgetReport,
  type ListOptions,
  type Operator,
  type RecordPage,
  type SubjectAtFence,
} from "./operator.ts";
import { type Check, checkOptions, isFunction, oneOf, wholeFrom } from "./option-checks.ts";
import { type Decision, POLICY_CHECKS, POLICY_DEFAULTS, type Policy, type PolicyOptions } from "./policy.ts";
import { outcomeLimit } from "./ports.ts";
import { createPurger } from "./purger.ts";
import type { RecordView } from "./record-view.ts";
import {
  type Call,
  checkedSubject,
  type OfWork,
  prepareCall,
  type RunRequest,
  type Subject,
} from "./request.ts";
import { createRequirement } from "./requirement.ts";
import { closed, type RunResult, toError } from "./result.ts";
import type { LeftRunning } from "./running-attempts.ts";
import { createSagaDoor, SAGA_DOOR } from "./saga-door.ts";
import type { Store, UndecidedReport } from "./store.ts";
import { randomToken } from "./token.ts";
import { createTransactionDoor, TRANSACTION_DOOR } from "./transaction-door.ts";
import type { CreateTransactionRunner } from "./transaction-port.ts";
import type { WaitUntil } from "./wait-until.ts";

/**
 * Options of `createGuard`: where records are kept, and the policies of all calls that do not set their own.
 */
export interface GuardOptions extends PolicyOptions {
  /** Keeps the records. All processes that must not repeat each other's work need the same store. */
  readonly store: Store;
  /**
   * Which application the keys belong to: two guards share records only within one namespace.
   * @default "default"
   */
  readonly namespace?: string | undefined;
  /** One observer or several, which receive every event. */
  readonly observer?: Observer | readonly Observer[] | undefined;
  /**
   * How often expired records are removed, in small batches. `0` turns it off.
   * @default 60_000
   */
  readonly purgeEveryMs?: number | undefined;
  /**
   * How long `close()` waits for running work before it fires the signals of the attempts.
   * @default 30_000
   */
  readonly drainMs?: number | undefined;
  /** The hardest fault that an acknowledged claim must survive: our-crash, store-crash, power-loss or failover, each including those before it. */
  readonly require?: Fault | undefined;
  /** The outbox of `attempt.enqueue`: `createOutbox` of `nevertwice/outbox`, on the database of the transactions. */
  readonly outbox?: object | undefined;
  /** The platform's `waitUntil` for the current request: `import { waitUntil } from "cloudflare:workers"`. */
  readonly waitUntil?: WaitUntil | undefined;
}

export const GUARD_DEFAULTS = { namespace: "default", purgeEveryMs: 60_000, drainMs: 30_000 } as const;

export interface Engine {
  /** The policies of this guard, which a call may override. `maxOutcomeBytes` is the store's limit if that is lower. */
  readonly policy: Policy;
  /** The same guard with other policies, so that they need not be repeated in each request. Closing either closes both. */
  with(options: PolicyOptions): Engine;
  /** Changes durations for calls from now on, of this guard and of guards made from it by `with` that do not set them. */
  retune(windows: Windows): void;
  /**
   * Runs `work` once for this key and returns the same value every time; throws what the work threw, or a `NevertwiceError`.
   * @example
   * ```ts
   * import { createGuard } from "nevertwice";
   * import { memoryStore } from "nevertwice/stores/memory";
   *
   * const guard = createGuard({ store: memoryStore() });
   * const order = { id: "order-17", customer: "alice", amount: 4_200 };
   * const receipt = await guard.run(
   *   { operation: "charge", scope: order.customer, key: order.id, fingerprint: { amount: order.amount } },
   *   async (attempt) => ({ paid: order.amount, providerKey: attempt.deriveKey("psp") }),
   * );
   * console.log(receipt.paid);
   * ```
   */
  run<T, Kept = unknown>(request: RunRequest<OfWork<T>, Kept>, work: Work<T>): Promise<T>;
  /**
   * Like `run`, but every expected ending is a value. Throws what the work threw, and for an invalid request.
   * @example
   * ```ts
   * import { createGuard } from "nevertwice";
   * import { memoryStore } from "nevertwice/stores/memory";
   *
   * const guard = createGuard({ store: memoryStore() });
   * const result = await guard.tryRun({ operation: "charge", key: "order-17" }, async () => "receipt 1");
   * if (result.status === "ran" || result.status === "replayed") console.log(result.value);
   * else console.log(`not charged: ${result.status}`);
   * ```
   */
  tryRun<T, Kept = unknown>(request: RunRequest<OfWork<T>, Kept>, work: Work<T>): Promise<RunResult<T>>;
  /** The operation and key hash that the events of this subject carry. */
  about(subject: Subject): About;
  /** The key that `attempt.deriveKey(name)` gives to the work of this subject, to find its effect in another system. */
  deriveKey(subject: Subject, name: string): string;
  /** The record as operators see it; undefined if it is absent or expired. Throws `unavailable` if the store does not answer. */
  read(subject: Subject): Promise<RecordView | undefined>;
  /** Lists lapsed claims, whose outcome is unknown, page by page. `after` is the `next` of the previous page. */
  listUnknown(options?: Omit<ListOptions, "state">): Promise<RecordPage>;
  /** Lists records page by page. A record that is claimed again in the meantime may be missed or listed twice. */
  list(options?: ListOptions): Promise<RecordPage>;
  /** Counts the held records that wait for a decision, and says since when. Undefined if the store cannot. */
  undecided(): Promise<UndecidedReport | undefined>;
  /** Decides a lapsed claim. False if the record no longer has this fence, because another process claimed or decided it first. */
  resolve(
    subject: Subject & {
      /** The fence that the operator saw. */
      readonly fence: number;
    },
    decision: Decision,
  ): Promise<boolean>;
  /** Removes one record, or all records of a scope. False if there is none, or if its work is running. With a fence, removes it only if it has that fence. */
  forget(subject: SubjectAtFence): Promise<boolean>;
  forget(all: {
    /** Whose records are removed. */
    readonly scope: string;
  }): Promise<ForgetReport>;
  /** Releases a completed record, so that its work may be done again. False if it is not completed, or has another fence. */
  reopen(subject: SubjectAtFence): Promise<boolean>;
  /** Removes expired records now, in small batches, and returns how many. Platforms without background timers, such as Workers, need it. */
  purge(): Promise<number>;
  /** Resolves if the store answers and meets the `require` option. */
  ready(): Promise<void>;
  /** Takes no new work and waits up to `drainMs` for running work. Then it fires the signals of what still runs and returns it: those keys lapse. The store stays open. */
  close(): Promise<readonly LeftRunning[]>;
}

/** The engine with what `mark` needs. */
export interface MarkEngine extends Engine {
  with(options: PolicyOptions): MarkEngine;
  /**
   * `token`: the caller's own token for this attempt. The store recognises a repeated token: the call continues with its
   * claim, or answers `ran` again if that token has completed it. Two runs with the same token may run at the same time,
   * so only work without an effect may use one.
   */
  tryRun<T>(request: RunRequest, work: Work<T>, token?: string): Promise<RunResult<T>>;
}

/** The ports that a simulation replaces. */
export interface EnginePorts {
  readonly timer: Timer;
  readonly random: () => number;
  readonly newToken: () => string;
  readonly runnerFor?: CreateTransactionRunner | undefined;
}

export const SYSTEM_PORTS: EnginePorts = { timer: systemTimer, random: Math.random, newToken: randomToken };

/** The checks of the options that guards and `createClaims` share. */
export const PARTS_CHECKS = {
  store: isStore,
  namespace: (name, value) => void checkedPart(value, name, "options-invalid"),
  observer(name, value) {
    for (const observer of observersIn(value)) isFunction(name, observer);
  },
  purgeEveryMs: wholeFrom(0),
  drainMs: wholeFrom(0),
} as const satisfies Readonly<Record<string, Check>>;

const GUARD_CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  ...PARTS_CHECKS,
  require: oneOf(...FAULTS),
  outbox: isOutbox,
  waitUntil: isFunction,
};

export function createEngine(options: GuardOptions, enginePorts: EnginePorts = SYSTEM_PORTS): MarkEngine {
  requireStore(options, "createGuard");
  checkOptions(options, GUARD_CHECKS);
  const {
    store,
    namespace = GUARD_DEFAULTS.namespace,
    purgeEveryMs = GUARD_DEFAULTS.purgeEveryMs,
    drainMs = GUARD_DEFAULTS.drainMs,
  } = options;
  const { timer, random } = enginePorts;
  const observers = observersIn(options.observer);
  const ports = {
    ...enginePorts,
    store,
    emit: createEmit(observers),
    origin: createOrigin(observers),
    background: createBackground({ store, timer }, random),
    requirement: options.require === undefined ? undefined : createRequirement(store, options.require),
    outbox: enqueueDoor(options.outbox),
    waitUntil: options.waitUntil,
  };
  const executor = createExecutor(ports);
  const fit = (policy: Policy) => ({ ...policy, maxOutcomeBytes: outcomeLimit(ports, policy) });
  const base = createLivePolicy(() => POLICY_DEFAULTS, options, fit);
  const purger = createPurger(ports, purgeEveryMs, base.policy().storeTimeoutMs);
  const close = () => {
    purger.stop();
    return executor.close(drainMs);
  };

  const around = createAround(observers);
  function execute<T>(call: Call, work: ExecutedWork<T>): Promise<RunResult<T>> {
    purger.used();
    if (around === undefined) return executor.execute(call, work);
    return around(about(call.identity), () => executor.execute(call, work));
  }

  const notify: Notify = (subject, event) =>
    ports.emit?.({ ...about(checkedSubject(subject, namespace)), ...event } as GuardEvent);
  const hidden = { [NOTIFY]: notify };

  function engineWith(live: LivePolicy): MarkEngine {
    const operator = () => {
      if (executor.isClosed()) throw closed();
      purger.used();
      return createOperator(ports, namespace, live.policy());
    };
    const inner = {
      prepare: (request: RunRequest) => prepareCall(request, namespace, live.policy()),
      execute: <T>(call: Call, work: ExecutedWork<T>) => awaited(call, execute, work),
    };
    const doors = {
      [TRANSACTION_DOOR]: createTransactionDoor(ports, inner),
      [SAGA_DOOR]: createSagaDoor(ports, inner),
    };
    return {
      ...createCalls(execute, operator, namespace, live.policy),
      ...doors,
      get policy() {
        return live.policy();
      },
      with: (more) => engineWith(live.with(more)),
      retune: live.retune,
      async purge() {
        if (executor.isClosed()) throw closed();
        return purger.purge();
      },
      close,
      ...hidden,
    };
  }

  return engineWith(base);
}

/** The calls of applications and operators, under the policy in force at the time of each call. */
function createCalls(
  execute: Executor["execute"],
  open: () => Operator,
  namespace: string,
  policy: () => Policy,
): Omit<MarkEngine, "policy" | "with" | "retune" | "purge" | "close"> {
  function tryRun<T>(request: RunRequest, work: Work<T>, token?: string): Promise<RunResult<T>> {
    try {
      const prepared = prepareCall(request, namespace, policy());
      const call = token === undefined ? prepared : { ...prepared, token };
      isFunction("the work", work);
      return awaited(call, execute, work);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  function forget(subject: SubjectAtFence): Promise<boolean>;
  function forget(all: { readonly scope: string }): Promise<ForgetReport>;
  async function forget(what: SubjectAtFence | { readonly scope: string }): Promise<boolean | ForgetReport> {
    const isScope = typeof what === "object" && what !== null && !("operation" in what || "key" in what);
    if (!isScope) return open().forgetOne(what as SubjectAtFence);
    checkOptions(what, { scope: () => {} });
    if (what.scope === undefined || what.scope === "") {
      throw new NevertwiceError(
        "scope-missing",
        "forget needs a subject { operation, key, scope? } or a { scope }.",
      );
    }
    return open().forgetScope(checkedPart(what.scope, "scope", "options-invalid"));
  }

  return {
    tryRun,
    async run(request, work) {
      const result = await tryRun(request, work);
      if (result.status === "ran" || result.status === "replayed") return result.value;
      throw toError(result, true);
    },
    about: (subject) => about(checkedSubject(subject, namespace)),
    deriveKey: (subject, name) => deriveKey(checkedSubject(subject, namespace).parts, name),
    read: async (subject) => open().read(subject),
    list: async (page = {}) => open().list(page),
    listUnknown: async (page = {}) => open().listUnknown(page),
    undecided: async () => open().undecided(),
    resolve: async (subject, decision) => open().resolve(subject, decision),
    forget,
    reopen: async (subject) => open().reopen(subject),
    ready: async () => open().probe(),
  };
}

/** Executes the call, and lets its caller stop waiting. */
function awaited<T>(call: Call, execute: Executor["execute"], work: ExecutedWork<T>): Promise<RunResult<T>> {
  if (call.signal === undefined) return execute(call, work);
  call.signal.throwIfAborted();
  return unlessAborted(execute(call, work), call.signal);
}

/** If the signal fires the caller stops waiting. Work that runs continues, and its outcome is recorded as usual. */
function unlessAborted<T>(outcome: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    outcome.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/** Throws `options-invalid` if the options have no store. `create` is the function that was called. */
export function requireStore(options: { readonly store?: unknown }, create: string): void {
  if (typeof options === "object" && options !== null && options.store !== undefined) return;
  throw new NevertwiceError("options-invalid", `store is missing: ${create}({ store: memoryStore() }).`);
}
