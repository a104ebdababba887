/** The engine behind every door: a checked set of options, the calls of callers, and the calls of operators. */
import type { Work } from "./attempt.ts";
import { createBackground } from "./background.ts";
import { systemTimer, type Timer } from "./clock.ts";
import { createDriver, type Driver, type LeftRunning } from "./driver.ts";
import { NevertwiceError } from "./errors.ts";
import { checkedPart } from "./identity.ts";
import {
  type About,
  about,
  createAround,
  createEmit,
  createOrigin,
  type Observer,
  observersIn,
} from "./observer.ts";
import {
  createOperator,
  type ForgetReport,
  type ListOptions,
  type Operator,
  type RecordPage,
  type RecordView,
  type Seen,
} from "./operator.ts";
import {
  type Check,
  checkOptions,
  type Decision,
  isFunction,
  oneOf,
  POLICY_CHECKS,
  POLICY_DEFAULTS,
  type Policy,
  type PolicyOptions,
  wholeFrom,
} from "./policy.ts";
import { outcomeLimit } from "./ports.ts";
import { startPurging } from "./purging.ts";
import { type Call, checkedSubject, prepareCall, type RunRequest, type Subject } from "./request.ts";
import { createRequirement } from "./requirement.ts";
import { closed, type RunResult, toError } from "./result.ts";
import { FAULTS, type Fault } from "./settings.ts";
import type { Store } from "./store.ts";
import { randomToken } from "./token.ts";
import { type Tuning, tuningOf, type Windows } from "./tuning.ts";

export interface GuardOptions extends PolicyOptions {
  readonly store: Store;
  /** Which application the keys belong to: two guards share records only within one namespace. Default "default". */
  readonly namespace?: string | undefined;
  /** Who is told what happens: one, or several. */
  readonly observer?: Observer | readonly Observer[] | undefined;
  readonly purgeEveryMs?: number | undefined;
  readonly drainMs?: number | undefined;
  /** The fault that an acknowledged claim must survive, with all before it: our-crash, store-crash, power-loss, failover. */
  readonly require?: Fault | undefined;
}

export const GUARD_DEFAULTS = { namespace: "default", purgeEveryMs: 60_000, drainMs: 30_000 } as const;

export interface Engine {
  /** What this guard does unless a call says otherwise. `maxOutcomeBytes` is the store's limit if that is lower. */
  readonly policy: Policy;
  /** The same guard with other policies: what rides beside a request, said once. Closing either closes both. */
  with(options: PolicyOptions): Engine;
  /** Changes how long things take, for calls from now on: of this guard, and of those made of it that say nothing else. */
  retune(windows: Windows): void;
  /** Runs `work` once for this key and answers the same every time; throws what it threw, or a `NevertwiceError`. */
  run<T>(request: RunRequest, work: Work<T>): Promise<T>;
  /** Like `run`, but every expected ending is a value; throws what the work threw, and for a request that is itself wrong. */
  tryRun<T>(request: RunRequest, work: Work<T>): Promise<RunResult<T>>;
  /** What observers are told of a subject: the name that its events have. */
  about(subject: Subject): About;
  read(subject: Subject): Promise<RecordView | undefined>;
  /** Lapsed claims, whose outcome nobody knows: page by page, `after` being the `next` of the page before. */
  listUnknown(options?: Omit<ListOptions, "state">): Promise<RecordPage>;
  /** Records for people to look at, page by page. One that moves meanwhile may be missed, or seen twice. */
  list(options?: ListOptions): Promise<RecordPage>;
  /** Decides a lapsed claim. False if it is no longer the one that had this fence: somebody else was there first. */
  resolve(subject: Subject & { readonly fence: number }, decision: Decision): Promise<boolean>;
  /** Removes one record (true if there was one that is not under way), or all of a scope. With a fence, only what has it. */
  forget(subject: Seen): Promise<boolean>;
  forget(all: { readonly scope: string }): Promise<ForgetReport>;
  /** Says that what is completed is not done after all, so that it may be done again. False if it is not completed, or has another fence than is given. */
  reopen(subject: Seen): Promise<boolean>;
  /** Resolves when the store answers and survives what is required of it. */
  ready(): Promise<void>;
  /** Takes no new work, waits `drainMs` for what runs, then fires its signals and answers what is left to lapse. The store stays open. */
  close(): Promise<readonly LeftRunning[]>;
}

/** The ports that a simulation replaces. */
export interface EnginePorts {
  readonly timer: Timer;
  readonly random: () => number;
  readonly newToken: () => string;
}

const SYSTEM_PORTS: EnginePorts = { timer: systemTimer, random: Math.random, newToken: randomToken };

const GUARD_CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  store: isStore,
  namespace: (name, value) => void checkedPart(value, name, "options-invalid"),
  observer(name, value) {
    for (const observer of observersIn(value)) isFunction(name, observer);
  },
  purgeEveryMs: wholeFrom(0),
  drainMs: wholeFrom(0),
  require: oneOf(...FAULTS),
};

export function createEngine(options: GuardOptions, enginePorts: EnginePorts = SYSTEM_PORTS): Engine {
  if (typeof options !== "object" || options === null || options.store === undefined) {
    throw new NevertwiceError("options-invalid", "store is missing: createGuard({ store: memoryStore() }).");
  }
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
  };
  const driver = createDriver(ports);
  const fit = (policy: Policy) => ({ ...policy, maxOutcomeBytes: outcomeLimit(ports, policy) });
  const base = tuningOf(() => POLICY_DEFAULTS, options, fit);
  const stopPurging = startPurging(ports, purgeEveryMs, base.policy().storeTimeoutMs);
  const close = () => {
    stopPurging();
    return driver.close(drainMs);
  };

  const around = createAround(observers);
  function execute<T>(call: Call, work: Work<T>): Promise<RunResult<T>> {
    const run = () => driver.execute(call, work);
    return around === undefined ? run() : around(about(call.identity), run);
  }

  function engineWith(tuning: Tuning): Engine {
    const operator = () => {
      if (driver.isClosed()) throw closed();
      return createOperator(ports, namespace, tuning.policy());
    };
    return {
      ...callsOf(execute, operator, namespace, tuning.policy),
      get policy() {
        return tuning.policy();
      },
      with: (more) => engineWith(tuning.with(more)),
      retune: tuning.retune,
      close,
    };
  }

  return engineWith(base);
}

/** The calls of callers and operators, under the policy that holds when they are made. */
function callsOf(
  execute: Driver["execute"],
  open: () => Operator,
  namespace: string,
  policy: () => Policy,
): Omit<Engine, "policy" | "with" | "retune" | "close"> {
  function tryRun<T>(request: RunRequest, work: Work<T>): Promise<RunResult<T>> {
    try {
      const call = prepareCall(request, namespace, policy());
      isFunction("the work", work);
      if (call.signal === undefined) return execute(call, work);
      call.signal.throwIfAborted();
      return unlessAborted(execute(call, work), call.signal);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  function forget(subject: Seen): Promise<boolean>;
  function forget(all: { readonly scope: string }): Promise<ForgetReport>;
  async function forget(what: Seen | { readonly scope: string }): Promise<boolean | ForgetReport> {
    const isScope = typeof what === "object" && what !== null && !("operation" in what || "key" in what);
    if (!isScope) return open().forgetOne(what as Seen);
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
      throw toError(result);
    },
    about: (subject) => about(checkedSubject(subject, namespace)),
    read: async (subject) => open().read(subject),
    list: async (page = {}) => open().list(page),
    listUnknown: async (page = {}) => open().listUnknown(page),
    resolve: async (subject, decision) => open().resolve(subject, decision),
    forget,
    reopen: async (subject) => open().reopen(subject),
    ready: async () => open().probe(),
  };
}

/** The caller stops waiting; the work, if it runs, goes on and is settled as ever. */
function unlessAborted<T>(outcome: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    outcome.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

function isStore(name: string, value: unknown): void {
  const methods = ["claim", "complete", "abandon", "renew", "read", "purge", "close"] as const;
  const missing = methods.filter(
    (method) => typeof (value as Partial<Store> | null)?.[method] !== "function",
  );
  if (missing.length > 0)
    throw new NevertwiceError("options-invalid", `${name} is no store: it lacks ${missing.join(", ")}.`);
}
