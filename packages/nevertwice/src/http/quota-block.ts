/**
 * A block of a limit, taken in the store. It is a completed record under a name that every process computes alike, so
 * only one of them can take it, and it is free again when the record's retention ends.
 */
import { sha256 } from "#platform";
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { compositeKey } from "../core/key.ts";
import { reserved } from "../core/reserved.ts";
import type { LimitName } from "./options.ts";

/** A reserved operation, so that a block never shares its identity with a key of a user. */
const QUOTA = reserved("quota");

export interface Block {
  readonly name: LimitName;
  /** Part of the block's name: processes with different limits have blocks of different sizes and count apart. */
  readonly limit: number;
  /** Undefined for a limit of all scopes together. */
  readonly scope: string | undefined;
  readonly index: number;
}

/** False if another process has the block. Throws the store's error, even with `onUnavailable: "proceed"`. */
export async function takeBlock(engine: Engine, block: Block, retentionMs: number): Promise<boolean> {
  const result = await engine.tryRun(
    {
      ...QUOTA,
      key: blockKey(block),
      retentionMs,
      retentionFrom: "completion",
      onCompleted: "reject",
      onPending: "reject",
      // A process that died before it completed the record has spent nothing of the block.
      onLapsed: "takeover",
      onUnavailable: "refuse",
      completeWaitMs: engine.policy.storeTimeoutMs,
    },
    () => null,
  );
  if (result.status === "unavailable") throw result.error;
  if (result.status !== "ran") return false;
  if (result.recorded) return true;
  // Another process may take over a claim that was never completed, and spend the same block.
  throw new NevertwiceError("unavailable", "the store did not confirm a block of the quota; try again.");
}

/** A scope may be as long as a whole key, so the block's key contains its digest. */
function blockKey({ name, limit, scope, index }: Block): string {
  const owner = scope === undefined ? null : sha256(scope, "hex");
  return compositeKey(name, limit, owner, index).text;
}
