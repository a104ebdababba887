/** The key of a message in a node: the values of the payload fields that the node's contract names. */
import { NevertwiceError } from "../core/errors.ts";
import { compositeKey, type KeyPart } from "../core/key.ts";
import type { PolicyOptions } from "../core/policy.ts";
import type { Subject } from "../core/request.ts";
import type { NodeModel } from "./model.ts";

/** Thirty days: longer than any queue keeps a message by default. */
const RETENTION_MS = 2_592_000_000;

/** Throws `key-missing` if a field is missing or empty, and `key-invalid` if its value cannot be part of a key. */
export function keyFrom(payload: unknown, fields: readonly string[]): string {
  if (typeof payload !== "object" || payload === null || Array.isArray(payload))
    throw new NevertwiceError(
      "key-missing",
      `the payload is not an object: it must be one with ${fields.join(", ")}.`,
    );
  const [first] = fields;
  if (fields.length > 1 || first === undefined)
    return compositeKey(...fields.map((field) => valueIn(payload, field))).text;
  const value = valueIn(payload, first);
  return typeof value === "string" && isOwnText(value) ? value : compositeKey(value).text;
}

function valueIn(payload: object, field: string): KeyPart {
  const value: unknown = Object.hasOwn(payload, field) ? payload[field as keyof typeof payload] : undefined;
  if (value !== undefined && value !== null && value !== "") return value as KeyPart;
  throw new NevertwiceError("key-missing", `the payload has no ${field}, which is part of the key.`);
}

/** Whether the composite key of this text alone is the text itself, as it is for the ids of most systems. */
function isOwnText(text: string): boolean {
  return /^[\w-]+$/.test(text);
}

/** One key of a node. */
export interface NodeSubject extends Subject {
  readonly scope: string;
  readonly key: string;
}

/** What all keys of a node share. The scope names the node in its network, so equal keys of other nodes are separate. */
export function nodeScope(network: string, { name }: NodeModel): Pick<NodeSubject, "operation" | "scope"> {
  return { operation: `${network}/${name}`, scope: compositeKey(network, name).text };
}

/** The policies that the contract of a node with a key sets. */
export function nodePolicies({ contract }: NodeModel) {
  const { retentionMs = RETENTION_MS, onLapsed } = contract.idempotency ?? {};
  return {
    onCompleted: "replay",
    retentionMs,
    ...(onLapsed === undefined ? {} : { onLapsed }),
  } as const satisfies PolicyOptions;
}
