/**
 * Operations that begin with `nevertwice:` are reserved for the library: locks, quotas, replays of dead letters and so on.
 * A user's operation with such a name would meet those records, so every surface that takes an operation refuses it.
 */
import { type ErrorCode, NevertwiceError } from "./errors.ts";
import { checkedPart } from "./identity.ts";

const PREFIX = "nevertwice:";

/** Shared by all copies of this package. It is a symbol, so that no option, JSON body or manifest can contain it. */
const OURS = Symbol.for("nevertwice.reserved-operation");

/** An operation of the library itself, to be spread into a request. The spread also copies the symbol that marks it. */
export function reserved(name: string): { readonly operation: string } {
  const mark = { [OURS]: true };
  return { operation: PREFIX + name, ...mark };
}

/** Whether the request was made with `reserved`. */
export function isOurs(request: object): boolean {
  return OURS in request;
}

/** Describes what is wrong with a reserved operation; undefined for any other operation. */
export function reservedProblem(operation: unknown, name: string): string | undefined {
  if (typeof operation !== "string" || !operation.startsWith(PREFIX)) return undefined;
  return `${name} is ${JSON.stringify(operation)}; names that begin with "${PREFIX}" are reserved for nevertwice itself`;
}

/** Throws `code` for a reserved operation. It checks nothing else. */
export function refuseReserved(operation: unknown, name: string, code: ErrorCode): void {
  const problem = reservedProblem(operation, name);
  if (problem !== undefined) throw new NevertwiceError(code, `${problem}. Choose another one.`);
}

/** The check for every option that names an operation. */
export function isOperation(name: string, value: unknown): void {
  checkedPart(value, name, "options-invalid");
  refuseReserved(value, name, "options-invalid");
}
