/** `nevertwice/env`: a guard as the environment says, so that whoever operates an application can tune it. */
import type { GuardOptions } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isBoolean, isFunction, oneOf } from "../core/policy.ts";
import { FAULTS } from "../core/settings.ts";
import type { Store } from "../core/store.ts";
import { createGuard, type Guard } from "../functions/guard.ts";
import { type OpenStoreOptions, openStore } from "../stores/open.ts";
import { offStore, toldUnguarded } from "./off.ts";
import { checkNames } from "./strangers.ts";
import {
  type Environment,
  type EnvWindows,
  given,
  guardOptionsFrom,
  isOn,
  storeUrlIn,
  windowsFrom,
} from "./variables.ts";
import { warnOnce } from "./warning.ts";

export { durationMs } from "../core/duration.ts";
export type { Environment, EnvWindows } from "./variables.ts";

/** What the application's code says; where the environment says something else, that holds. */
export interface EnvGuardOptions extends Omit<GuardOptions, "store"> {
  /** Whether to create or upgrade the tables of Postgres and MySQL first; default true. */
  readonly migrate?: boolean | undefined;
  /** What stands between the guard and the store that it opens, such as `sealed`. Closing the answer closes the store. */
  readonly wrapStore?: ((store: Store) => Store) | undefined;
}

/**
 * A guard on the store of `NEVERTWICE_STORE_URL`; docs/options.md has every variable. `guard.close()` closes the store
 * too. Fails with `options-invalid` on a variable that is wrong or misspelt, and in production without a shared store.
 */
export async function guardFromEnv(
  env: Environment = process.env,
  options: EnvGuardOptions = {},
): Promise<Guard> {
  const { migrate, wrapStore, ...code } = checkedCode(options);
  checkEnvironment(env);
  const guardOptions = { ...code, ...guardOptionsFrom(env, code) };
  const allowsLocal = isOn(env, "NEVERTWICE_ALLOW_LOCAL");
  if (!isOn(env, "NEVERTWICE_ENABLED")) return offGuard(guardOptions);

  if (given(env, "NODE_ENV") === "production" && !allowsLocal) refuseLocal(env);
  const opened = await open(storeUrlIn(env), migrate === undefined ? {} : { migrate });
  try {
    const store = wrapStore === undefined ? opened : wrapStore(opened);
    return closingStore(createGuard({ ...guardOptions, store }), store);
  } catch (error) {
    await opened.close().catch(() => {});
    throw error;
  }
}

/**
 * The windows that `guardFromEnv` would start with now, from the same two arguments: `guard.retune(windowsFromEnv(env))`
 * puts a changed environment into force. Fails with `options-invalid`, and then nothing has changed.
 */
export function windowsFromEnv(env: Environment = process.env, options: EnvGuardOptions = {}): EnvWindows {
  checkEnvironment(env);
  return windowsFrom(env, checkedCode(options));
}

function checkedCode(options: EnvGuardOptions): EnvGuardOptions {
  const { migrate, wrapStore } = options ?? {};
  checkOptions({ migrate, wrapStore }, { migrate: isBoolean, wrapStore: isFunction });
  if ((options as { store?: unknown } | null)?.store !== undefined)
    throw new NevertwiceError(
      "options-invalid",
      "store is opened by NEVERTWICE_STORE_URL; for a store of your own, createGuard({ store, ...windowsFromEnv() }).",
    );
  return options ?? {};
}

function checkEnvironment(env: Environment): void {
  if (typeof env !== "object" || env === null)
    throw new NevertwiceError("options-invalid", "the environment must be an object, such as process.env.");
  for (const [name, value] of Object.entries(env))
    if (value !== undefined && typeof value !== "string")
      throw new NevertwiceError(
        "options-invalid",
        `${name} in the environment is no text. Options come second: guardFromEnv(process.env, { … }).`,
      );
  checkNames(env);
}

function offGuard({ require, observer, ...options }: Omit<GuardOptions, "store">): Guard {
  if (require !== undefined) oneOf(...FAULTS)("require", require);
  const guard = createGuard({ ...options, observer: toldUnguarded(observer), store: offStore() });
  warnOnce(
    "NEVERTWICE_OFF",
    "NEVERTWICE_ENABLED says off: nothing is checked or remembered, and every call runs its work.",
  );
  return guard;
}

const LOCAL = /^(memory|sqlite):/;

function refuseLocal(env: Environment): void {
  const local = LOCAL.exec(storeUrlIn(env))?.[1];
  if (local === undefined) return;
  const isGiven = given(env, "NEVERTWICE_STORE_URL") !== undefined;
  throw new NevertwiceError(
    "options-invalid",
    `NEVERTWICE_STORE_URL is ${isGiven ? `a ${local}: URL` : "not set"}, and NODE_ENV is production: ` +
      `other ${local === "memory" ? "processes" : "machines"} would not see these records. ` +
      "Set it to a store that all share (redis://…, postgres://…), or set NEVERTWICE_ALLOW_LOCAL=true if there are no others.",
  );
}

/** Says nothing of the URL but which variable it stands in: its password may be anywhere in a malformed one. */
async function open(url: string, options: OpenStoreOptions): Promise<Store> {
  const malformed = () =>
    new NevertwiceError(
      "options-invalid",
      "NEVERTWICE_STORE_URL is no store's URL; it looks like redis://host:6379 or postgres://user:password@host/database.",
    );
  if (!LOCAL.test(url) && !/^[a-z+]+:\/\//.test(url)) throw malformed();
  try {
    return await openStore(url, options);
  } catch (error) {
    // What a URL parser throws has the whole text in it.
    throw error instanceof TypeError && /url/i.test(error.message) ? malformed() : error;
  }
}

/** The guard, and those made of it, with the store that nobody else can close. */
function closingStore(guard: Guard, store: Store): Guard {
  let closing: ReturnType<Guard["close"]> | undefined;

  async function closeBoth() {
    const left = await guard.close();
    await store.close();
    return left;
  }
  function close() {
    closing ??= closeBoth();
    return closing;
  }
  function owning(one: Guard): Guard {
    return Object.defineProperties({} as Guard, {
      ...Object.getOwnPropertyDescriptors(one),
      with: { value: (more: Parameters<Guard["with"]>[0]) => owning(one.with(more)), enumerable: true },
      close: { value: close, enumerable: true },
    });
  }
  return owning(guard);
}
