/**
 * Reads the outcome that is recorded for a node's key: what a run of the node stored, or what an operator supplied instead.
 * The record may hold any value, since `guard.resolve`, `guard.mark` and other programs write to the same store.
 */
import { describeType } from "../core/identity.ts";
import { isPlainObject } from "../core/plain-object.ts";
import type { NodeOutcome } from "./node-outcome.ts";

/** `unknown`: the value is neither a run's nor an operator's. An operator's outcome has no `run`. */
export type RecordedOutcome =
  | { readonly by: "run"; readonly output: NodeOutcome }
  | { readonly by: "operator"; readonly output: Omit<NodeOutcome, "run"> }
  | { readonly by: "unknown"; readonly problem: string };

const SHAPE =
  "{ emitted: { port: payload } } or { emitted: [{ port, payload }, …] }, with a reply if it replies";

export function readRecordedOutcome(value: unknown): RecordedOutcome {
  // Done without a value: the node emitted nothing.
  if (value === undefined || value === null) return { by: "operator", output: { emits: [] } };
  if (!isPlainObject(value)) return wrong(`it is ${describe(value)}; it must be an object with emitted`);
  if (isNodeOutcome(value)) return { by: "run", output: value };
  const { emitted = {}, reply, ...others } = value;
  const names = Object.keys(others);
  if (names.length > 0) return wrong(`it has ${names.join(", ")}`);
  const emits = readEmits(emitted);
  if (typeof emits === "string") return wrong(emits);
  return { by: "operator", output: { emits, ...(reply === undefined ? {} : { reply: { value: reply } }) } };
}

function wrong(problem: string): RecordedOutcome {
  return { by: "unknown", problem: `what is recorded for the key is not ${SHAPE}: ${problem}` };
}

function readEmits(emitted: unknown): NodeOutcome["emits"] | string {
  if (isPlainObject(emitted)) return Object.entries(emitted);
  if (!Array.isArray(emitted)) return `emitted is ${describe(emitted)}`;
  const bad = emitted.findIndex(
    (emit) => !isPlainObject(emit) || typeof emit.port !== "string" || !("payload" in emit),
  );
  if (bad !== -1) return `emitted[${bad}] must be { port, payload }`;
  return emitted.map(({ port, payload }: { port: string; payload: unknown }) => [port, payload] as const);
}

function isNodeOutcome(
  value: Readonly<Record<string, unknown>>,
): value is Readonly<Record<string, unknown>> & NodeOutcome {
  const { run, emits, reply, wrong: reason, care, root } = value;
  return (
    typeof run === "string" &&
    Array.isArray(emits) &&
    emits.every((emit) => Array.isArray(emit) && emit.length === 2 && typeof emit[0] === "string") &&
    (reply === undefined || (isPlainObject(reply) && "value" in reply)) &&
    (reason === undefined || typeof reason === "string") &&
    (root === undefined || typeof root === "string") &&
    isSettlementOrOwn(care)
  );
}

function isSettlementOrOwn(care: unknown): boolean {
  if (care === undefined || care === "own") return true;
  return isPlainObject(care) && typeof care.scope === "string" && typeof care.key === "string";
}

function describe(value: unknown): string {
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" && value !== null ? "an object of another kind" : describeType(value);
}
