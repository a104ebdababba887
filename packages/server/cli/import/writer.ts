/**
 * Writes one imported key: a claim and its completion, as every other writer of the store does it, so that limits, states
 * and fences are the same. The token is made from the identity: if the import is repeated after it was interrupted, it owns
 * the claims that it left, and completes them.
 */
import { createHash } from "node:crypto";
import { createGuard, isNevertwiceError, type Outcome } from "nevertwice";
import type { Claims } from "nevertwice/claims";
import { memoryStore } from "nevertwice/stores/memory";
import type { MappedKey } from "./mapping.ts";

export interface WrittenKey extends MappedKey {
  readonly outcome: { readonly value: unknown } | { readonly error: unknown };
  readonly meaning?: unknown;
  readonly retentionMs: number;
}

/**
 * `already-there`: the store has this outcome. `different`: it has another one, which stays. `busy`: work with this key is
 * running, or its outcome is unknown.
 */
export type WriteAnswer =
  | { readonly status: "imported" | "already-there" | "different" | "busy" }
  | { readonly status: "refused"; readonly reason: string };

export type WriteKey = (key: WrittenKey) => Promise<WriteAnswer>;

export function createWriter(claims: Claims, namespace: string): WriteKey {
  return (key) => refusing(() => claimAndComplete(claims, namespace, key));
}

/** Judges keys for a dry run: whether they can be imported, without a look at the store. */
export function createJudge(namespace: string): WriteKey {
  const guard = createGuard({ store: memoryStore(), namespace });
  return ({ operation, scope, key }) =>
    refusing(async () => {
      guard.about({ operation, key, ...(scope !== undefined && { scope }) });
      return { status: "imported" };
    });
}

async function refusing(work: () => Promise<WriteAnswer>): Promise<WriteAnswer> {
  try {
    return await work();
  } catch (error) {
    // An outage ends the import. What the library refuses about this one key does not.
    if (!isNevertwiceError(error) || error.code === "unavailable" || error.code === "store-unsafe")
      throw error;
    return { status: "refused", reason: error.message };
  }
}

async function claimAndComplete(claims: Claims, namespace: string, key: WrittenKey): Promise<WriteAnswer> {
  const { operation, scope, key: text, outcome, meaning, retentionMs } = key;
  const token = importToken(namespace, key);
  const answer = await claims.claim({
    operation,
    key: text,
    token,
    retentionMs,
    ...(scope !== undefined && { scope }),
    ...(meaning !== undefined && { fingerprint: meaning }),
  });
  switch (answer.status) {
    case "new": {
      if (await claims.complete({ id: answer.id, token, retentionMs, ...outcome }))
        return { status: "imported" };
      const record = await claims.read(answer.id);
      return record?.outcome === undefined ? { status: "busy" } : compare(record.outcome, outcome);
    }
    case "completed":
      return compare(answer.outcome, outcome);
    case "conflict":
      return { status: answer.state === "completed" ? "different" : "busy" };
    case "token-spent":
      return { status: "refused", reason: "it was imported before and then released here." };
    default:
      return { status: "busy" };
  }
}

function compare(stored: Outcome, imported: WrittenKey["outcome"]): WriteAnswer {
  return { status: isSame(stored, imported) ? "already-there" : "different" };
}

function isSame(stored: Outcome, imported: WrittenKey["outcome"]): boolean {
  // Too large to keep, or forgotten: it says that the work is done, which is all that can be compared.
  if (stored.kind === "not-kept") return true;
  if (stored.kind === "thrown") return "error" in imported && String(stored.error) === String(imported.error);
  return "value" in imported && JSON.stringify(stored.value) === JSON.stringify(imported.value);
}

/** 43 characters. The parts have their length in front, so that two identities never give one text. */
function importToken(namespace: string, { operation, scope = "", key }: MappedKey): string {
  const parts = ["nevertwice/import/1", namespace, scope, operation, key];
  const text = parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join("");
  return createHash("sha256").update(text).digest("base64url");
}
