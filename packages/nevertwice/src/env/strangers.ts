/**
 * Variables that begin like ours and are none of them. One that is nearly ours is a mistake that somebody relies on,
 * and is refused. Any other may be somebody else's: it is said once, and does no harm.
 */
import { NevertwiceError } from "../core/errors.ts";
import { type Environment, given, VARIABLES } from "./variables.ts";
import { warnOnce } from "./warning.ts";

const PREFIX = "NEVERTWICE_";
const NAMES = Object.keys(VARIABLES).map((name) => name.slice(PREFIX.length));

/** Those of our server and of our tests; and of Kubernetes, which tells every pod about a service called nevertwice. */
const KNOWN_ELSEWHERE =
  /^(SERVER|TEST)_|^(\w+_)?SERVICE_(HOST|PORT(_\w+)?)$|^(\w+_)?PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$/;

export function checkNames(env: Environment): void {
  for (const name of Object.keys(env)) {
    const ours = name.startsWith(PREFIX) ? name.slice(PREFIX.length) : undefined;
    if (ours === undefined || NAMES.includes(ours) || KNOWN_ELSEWHERE.test(ours)) continue;
    // Values are not shown: one may be a URL with its password.
    if (given(env, name) === undefined) continue;
    const meant = NAMES.find((candidate) => isNearly(ours, candidate));
    if (meant !== undefined)
      throw new NevertwiceError(
        "options-invalid",
        `there is no variable ${name}; ${PREFIX}${meant} is probably meant.`,
      );
    warnOnce("NEVERTWICE_UNKNOWN_VARIABLE", `${name} is set, and nothing reads it.`);
  }
}

/** `LEASE_MS` for `LEASE`; `RETENTOIN` for `RETENTION`. A short name forgives one slip, a long one two. */
function isNearly(written: string, name: string): boolean {
  return written.startsWith(`${name}_`) || slipsBetween(written, name) <= (name.length < 8 ? 1 : 2);
}

/** How many letters are left out, put in, taken for another or swapped with their neighbour (optimal string alignment). */
function slipsBetween(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  const at = (i: number, j: number) => rows[i]?.[j] ?? Number.POSITIVE_INFINITY;
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      const isSwapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row[j] = Math.min(
        at(i - 1, j) + 1,
        at(i, j - 1) + 1,
        at(i - 1, j - 1) + (isSame ? 0 : 1),
        isSwapped ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY,
      );
    }
  }
  return at(a.length, b.length);
}
