/** The key of a message in a node: the values of the payload fields that the node's contract names. */
import { NevertwiceError } from "../core/errors.ts";
import { compositeKey, type KeyPart } from "../core/key.ts";
import type { RunRequest, Subject } from "../core/request.ts";
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
  const values = fields.map((field) => {
    const value: unknown = Object.hasOwn(payload, field) ? payload[field as keyof typeof payload] : undefined;
    if (value !== undefined && value !== null && value !== "") return value as KeyPart;
    throw new NevertwiceError("key-missing", `the payload has no ${field}, which is part of the key.`);
  });
  return compositeKey(...values).text;
}

/** The request for one key of a node. The scope names the node in its network, so equal keys of other nodes are separate. */
export function nodeRequest(network: string, { name, contract }: NodeModel, key: string) {
  const { retentionMs = RETENTION_MS, onLapsed } = contract.idempotency ?? {};
  return {
    operation: `${network}/${name}`,
    scope: compositeKey(network, name).text,
    key,
    onCompleted: "replay",
    retentionMs,
    ...(onLapsed === undefined ? {} : { onLapsed }),
  } as const satisfies RunRequest;
}

export function nodeSubject({ operation, scope, key }: ReturnType<typeof nodeRequest>): Subject {
  return { operation, scope, key };
}
