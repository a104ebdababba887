/** What makes a node's key: the values of the fields that its contract names, and nothing that is not there. */
import { hash } from "node:crypto";
import { NevertwiceError } from "../core/errors.ts";
import { compositeKey, type KeyPart } from "../core/key.ts";
import type { RunRequest, Subject } from "../core/request.ts";
import type { NodeModel } from "./model.ts";

/** Thirty days: longer than any queue keeps a message by default. */
const RETENTION_MS = 2_592_000_000;

/** A tree is waited for as long as this process lives; a hundred years is the longest that there is. */
const AS_LONG_AS_IT_TAKES_MS = 3_155_760_000_000;

const SETTLED = "nevertwice:settled";

/** Fails with `key-missing` or `key-invalid`: a declared key that is not there is never overlooked. */
export function keyIn(payload: unknown, fields: readonly string[]): string {
  if (typeof payload !== "object" || payload === null || Array.isArray(payload))
    throw new NevertwiceError(
      "key-missing",
      `the payload is no object: it cannot have ${fields.join(", ")}.`,
    );
  const values = fields.map((field) => {
    const value: unknown = Object.hasOwn(payload, field) ? payload[field as keyof typeof payload] : undefined;
    if (value !== undefined && value !== null && value !== "") return value as KeyPart;
    throw new NevertwiceError("key-missing", `the payload has no ${field}, which makes the key.`);
  });
  return compositeKey(...values).text;
}

/** What the guard is asked for one key of a node. The scope is the node in its network: equal keys elsewhere are others. */
export function requestOf(network: string, { name, contract }: NodeModel, key: string) {
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

export function subjectOf({ operation, scope, key }: ReturnType<typeof requestOf>): Subject {
  return { operation, scope, key };
}

/**
 * The claim under which what one run emitted is sent on. It is completed when all that came of it is settled, so a
 * duplicate finds out whether there is something left to send, and two processes never send it at once.
 */
export function settlingOf(request: ReturnType<typeof requestOf>, run: string) {
  const { scope, key, retentionMs } = request;
  return {
    operation: SETTLED,
    scope,
    // The run is in it: what was settled once says nothing of a later run of the same key.
    key: `${hash("sha256", key, "hex")}.${run}`,
    onCompleted: "replay",
    retentionMs,
    retentionFrom: "completion",
    onFailure: "release",
    // Whoever took over sends it on; each node after this one decides for itself.
    onLapsed: "takeover",
    maxRunMs: AS_LONG_AS_IT_TAKES_MS,
    // A reply that is too large is not kept; that all is settled is.
    shorten: () => ({}),
  } as const satisfies RunRequest;
}
