/** `nevertwice/env`: a guard that is configured by environment variables, so that operators can tune it. */

import { FAULTS } from "../core/durability.ts";
import type { GuardOptions } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { refusesLocalStores } from "../core/local-stores.ts";
import { checkOptions, isBoolean, isFunction, oneOf } from "../core/option-checks.ts";
import type { Store } from "../core/store.ts";
import { createGuard, type Guard } from "../functions/guard.ts";
import { type OpenStoreOptions, openStore } from "../stores/open.ts";
import { offStore, unguardedObservers } from "./off-store.ts";
import { checkNames } from "./unknown-variables.ts";
import {
  type Environment,
  type EnvWindows,
  given,
  guardOptionsFrom,
  isOn,
  storeUrlIn,
  windowsFrom,
} from "./variables.ts";

export { didYouMean } from "../core/did-you-mean.ts";
export { durationMs } from "../core/duration.ts";
export { refusesLocalStores } from "../core/local-stores.ts";

import { warnOnce } from "../core/warning.ts";

export { checkVariables } from "./unknown-variables.ts";
export type { Environment, EnvWindows } from "./variables.ts";

/** Options from the application's code. The environment overrides them. */
export interface EnvGuardOptions extends Omit<GuardOptions, "store"> {
  /** Whether to create or upgrade the tables of Postgres and MySQL first; default true. */
  readonly migrate?: boolean | undefined;
  /** Wraps the store that is opened, for example with `sealed`. Closing the returned store must close the given one. */
  readonly wrapStore?: ((store: Store) => Store) | undefined;
}

/**
 * Creates a guard on the store of `NEVERTWICE_STORE_URL`. `guard.close()` also closes
 * the store. Throws `options-invalid` for a wrong or misspelt variable, and in production without a shared store.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { guardFromEnv } from "nevertwice/env";
 *
 * const guard = await guardFromEnv({ NEVERTWICE_STORE_URL: "memory:", NEVERTWICE_NAMESPACE: "shop" }); // process.env;
 * await guard.close();
 * ```
 */
export async function guardFromEnv(
  env: Environment = process.env,
  options: EnvGuardOptions = {},
): Promise<Guard> {
  const { migrate, wrapStore, ...code } = checkedCode(options);
  checkEnvironment(env);
  const guardOptions = { ...code, ...guardOptionsFrom(env, code) };
  const isLocalRefused = refusesLocalStores(env);
  if (!isOn(env, "NEVERTWICE_ENABLED")) return offGuard(guardOptions);

  if (isLocalRefused) refuseLocal(env);
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
 * The durations that `guardFromEnv` would use now, from the same two arguments. `guard.retune(windowsFromEnv(env))` applies
 * a changed environment. Throws `options-invalid`, and then nothing has changed.
 * @throws `options-invalid`
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
      "store comes from NEVERTWICE_STORE_URL; to use another store, call createGuard({ store, ...windowsFromEnv() }).",
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
        `${name} in the environment is not a string. Options are the second argument: guardFromEnv(process.env, { … }).`,
      );
  checkNames(env);
}

function offGuard({ require, observer, ...options }: Omit<GuardOptions, "store">): Guard {
  if (require !== undefined) oneOf(...FAULTS)("require", require);
  const guard = createGuard({ ...options, observer: unguardedObservers(observer), store: offStore() });
  warnOnce(
    "NEVERTWICE_OFF",
    "NEVERTWICE_ENABLED is off: nothing is checked or stored, and every call runs its work.",
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
      "Set it to a shared store (redis://…, postgres://…), or set NEVERTWICE_ALLOW_LOCAL=true if there are no others.",
  );
}

/** Errors never contain the URL: in a malformed URL the password may be anywhere. */
async function open(url: string, options: OpenStoreOptions): Promise<Store> {
  const malformed = () =>
    new NevertwiceError(
      "options-invalid",
      "NEVERTWICE_STORE_URL is not the URL of a store; such a URL looks like redis://host:6379 or postgres://user:password@host/database.",
    );
  if (!LOCAL.test(url) && !/^[a-z+]+:\/\//.test(url)) throw malformed();
  try {
    return await openStore(url, options);
  } catch (error) {
    // The error of a URL parser contains the whole text.
    throw error instanceof TypeError && /url/i.test(error.message) ? malformed() : error;
  }
}

/** A guard whose `close` also closes the store, since the application has no reference to the store. */
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
