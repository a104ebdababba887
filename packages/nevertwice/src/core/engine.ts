/** The engine behind every door: a checked set of options, the calls of callers, and the calls of operators. */
import type { Work } from "./attempt.ts";
import { createBackground } from "./background.ts";
import { systemTimer, type Timer } from "./clock.ts";
import { createDriver, type Driver, type LeftRunning } from "./driver.ts";
import { NevertwiceError } from "./errors.ts";
import { checkedPart } from "./identity.ts";
import { createEmit, type Observer } from "./observer.ts";
import {
  createOperator,
  type ForgetReport,
  type Operator,
  type RecordView,
  type UnknownPage,
} from "./operator.ts";
import {
  type Check,
  checkOptions,
  type Decision,
  isFunction,
  mergePolicy,
  oneOf,
  POLICY_CHECKS,
  POLICY_DEFAULTS,
  type Policy,
  type PolicyOptions,
  wholeFrom,
} from "./policy.ts";
import { outcomeLimit } from "./ports.ts";
import { startPurging } from "./purging.ts";
import { prepareCall, type RunRequest, type Subject } from "./request.ts";
import { createRequirement } from "./requirement.ts";
import { closed, type RunResult, toError } from "./result.ts";
import { FAULTS, type Fault } from "./settings.ts";
import type { Store } from "./store.ts";
import { randomToken } from "./token.ts";

export interface GuardOptions extends PolicyOptions {
  readonly store: Store;
  /** Which application the keys belong to: two guards share records only within one namespace. Default "default". */
  readonly namespace?: string | undefined;
  readonly observer?: Observer | undefined;
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
  /** Runs `work` once for this key and answers the same every time; throws what it threw, or a `NevertwiceError`. */
  run<T>(request: RunRequest, work: Work<T>): Promise<T>;
  /** Like `run`, but every expected ending is a value; throws what the work threw, and for a request that is itself wrong. */
  tryRun<T>(request: RunRequest, work: Work<T>): Promise<RunResult<T>>;
  read(subject: Subject): Promise<RecordView | undefined>;
  /** Lapsed claims, whose outcome nobody knows: page by page, `after` being the `next` of the page before. */
  listUnknown(options?: {
    readonly scope?: string;
    readonly limit?: number;
    readonly after?: string | undefined;
  }): Promise<UnknownPage>;
  /** Decides a lapsed claim. False if it is no longer the one that had this fence: somebody else was there first. */
  resolve(subject: Subject & { readonly fence: number }, decision: Decision): Promise<boolean>;
  /** Removes one record (true if there was one that is not under way), or all of a scope. */
  forget(subject: Subject): Promise<boolean>;
  forget(all: { readonly scope: string }): Promise<ForgetReport>;
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
  observer: isFunction,
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
  const base = mergePolicy(POLICY_DEFAULTS, options);
  const { timer, random } = enginePorts;
  const ports = {
    ...enginePorts,
    store,
    emit: createEmit(options.observer),
    background: createBackground({ store, timer }, random),
    requirement: options.require === undefined ? undefined : createRequirement(store, options.require),
  };
  const driver = createDriver(ports);
  const stopPurging = startPurging(ports, purgeEveryMs, base.storeTimeoutMs);
  const close = () => {
    stopPurging();
    return driver.close(drainMs);
  };

  function engineWith(given: Policy): Engine {
    const policy = { ...given, maxOutcomeBytes: outcomeLimit(ports, given) };
    const operator = createOperator(ports, namespace, policy);
    return {
      ...callsOf(driver, operator, namespace, policy),
      policy,
      with(more) {
        checkOptions(more, POLICY_CHECKS);
        return engineWith(mergePolicy(policy, more));
      },
      close,
    };
  }

  return engineWith(base);
}

/** The calls of callers and operators, under one policy. */
function callsOf(
  driver: Driver,
  operator: Operator,
  namespace: string,
  policy: Policy,
): Omit<Engine, "policy" | "with" | "close"> {
  function tryRun<T>(request: RunRequest, work: Work<T>): Promise<RunResult<T>> {
    try {
      const call = prepareCall(request, namespace, policy);
      isFunction("the work", work);
      if (call.signal === undefined) return driver.execute(call, work);
      call.signal.throwIfAborted();
      return unlessAborted(driver.execute(call, work), call.signal);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  function open(): Operator {
    if (driver.isClosed()) throw closed();
    return operator;
  }

  function forget(subject: Subject): Promise<boolean>;
  function forget(all: { readonly scope: string }): Promise<ForgetReport>;
  async function forget(what: Subject | { readonly scope: string }): Promise<boolean | ForgetReport> {
    const isScope = typeof what === "object" && what !== null && !("operation" in what || "key" in what);
    if (!isScope) return open().forgetOne(what as Subject);
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
    read: async (subject) => open().read(subject),
    listUnknown: async (page = {}) => open().listUnknown(page),
    resolve: async (subject, decision) => open().resolve(subject, decision),
    forget,
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
