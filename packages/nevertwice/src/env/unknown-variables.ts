/**
 * Variables with our prefix that are not known. A name that is nearly one of ours is a spelling mistake and is refused, since
 * its author relies on it. Any other name may belong to another program, and is only reported once in a warning.
 */

import { editsBetween } from "../core/did-you-mean.ts";
import { NevertwiceError } from "../core/errors.ts";
import { warnOnce } from "../core/warning.ts";
import { type Environment, given, VARIABLES } from "./variables.ts";

const PREFIX = "NEVERTWICE_";
const NAMES = Object.keys(VARIABLES).map((name) => name.slice(PREFIX.length));

/** Variables of our server and our tests, and those that Kubernetes sets in every pod for a service called nevertwice. */
const KNOWN_ELSEWHERE =
  /^(SERVER|TEST)_|^(\w+_)?SERVICE_(HOST|PORT(_\w+)?)$|^(\w+_)?PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$/;

export function checkNames(env: Environment): void {
  checkVariables(env, PREFIX, NAMES);
}

/**
 * Refuses variables that begin with the prefix and have none of the names, such as a misspelt one. `names` are without the
 * prefix.
 * @throws `options-invalid`
 */
export function checkVariables(env: Environment, prefix: string, names: readonly string[]): void {
  for (const name of Object.keys(env)) {
    const ours = name.startsWith(prefix) ? name.slice(prefix.length) : undefined;
    if (ours === undefined || names.includes(ours) || KNOWN_ELSEWHERE.test(ours)) continue;
    // Errors do not contain the value, which may be a URL with a password.
    if (given(env, name) === undefined) continue;
    const meant = names.find((candidate) => isNearly(ours, candidate));
    if (meant !== undefined)
      throw new NevertwiceError(
        "options-invalid",
        `there is no variable ${name}. Did you mean ${prefix}${meant}?`,
      );
    warnOnce("NEVERTWICE_UNKNOWN_VARIABLE", `${name} is set, but nothing reads it.`);
  }
}

/** `LEASE_MS` for `LEASE`; `RETENTOIN` for `RETENTION`. A short name may differ by one edit, a long one by two. */
function isNearly(written: string, name: string): boolean {
  return written.startsWith(`${name}_`) || editsBetween(written, name) <= (name.length < 8 ? 1 : 2);
}
