/**
 * Copies one settled record to the store of another region, by a claim and its end like those of every other writer. The copy has a
 * higher fence than its original. So of two records of one key, the one with the higher fence is the newer one, however often its
 * owner was moved to and fro.
 */
import { createHash } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { NevertwiceError, type Store, type StoreRecord } from "nevertwice";

const LEASE_MS = 60_000;
/** The clocks of two stores may differ. A record that is kept for longer does no harm. */
const MORE_RETENTION_MS = 600_000;

/** How long to wait for a clock that is behind. */
const CATCH_UP_MS = 5_000;
const PAUSE_MS = 20;

type Copied = "copied" | "already-there";

/** Throws `request-invalid` if the new home cannot have a copy. Calling it again is safe. */
export async function copyRecord(record: StoreRecord, store: Store): Promise<Copied> {
  const until = performance.now() + CATCH_UP_MS;
  for (;;) {
    const copied = await tryToCopy(record, store);
    if (copied !== "behind") return copied;
    if (performance.now() > until)
      throw cannotCopy(
        record,
        "the clock of the new home's store is behind; repeat the move when it has caught up",
      );
    await setTimeout(PAUSE_MS);
  }
}

/** `behind`: the new home's fence would not be higher. */
async function tryToCopy(record: StoreRecord, store: Store): Promise<Copied | "behind"> {
  const { id, parts, fingerprint, outcome, state, fence } = record;
  if (parts === undefined) throw cannotCopy(record, "it has no parts");
  const there = await store.read(id);
  if (there !== undefined) {
    if (isCopied(record, there)) return "already-there";
    await makeRoom(record, there, store);
  }
  const token = copyToken(record, there);
  const retentionMs = Math.max(0, record.keptUntil - Date.now()) + MORE_RETENTION_MS;
  // Held: if this process dies here, only a repeated move takes the key over.
  const claim = await store.claim({
    id,
    parts,
    fingerprint,
    token,
    leaseMs: LEASE_MS,
    retentionMs,
    hold: true,
  });
  if (claim.status !== "new") throw cannotCopy(record, `the new home has a record of it: ${claim.status}`);
  if (claim.fence <= fence) {
    await store.abandon({ id, token, as: "released" });
    return "behind";
  }
  const isSettled =
    state === "completed"
      ? await store.complete({ id, token, outcome: outcome as string, retentionMs })
      : await store.abandon({ id, token, as: "released" });
  if (isSettled) return "copied";
  throw cannotCopy(record, "the new home's claim of it was lost; repeat the move");
}

/** Whether the new home says the same about the key, from an earlier move or an interrupted one. */
function isCopied({ state, outcome, fence }: StoreRecord, there: StoreRecord): boolean {
  if (state !== there.state) return false;
  return state === "completed" ? outcome === there.outcome : there.fence > fence;
}

/** An older record may be in the way: the key was reopened after it was copied from there. */
async function makeRoom(record: StoreRecord, there: StoreRecord, store: Store): Promise<void> {
  if (there.state !== "completed") return;
  const { id, fence } = there;
  const isOlder = fence < record.fence;
  if (isOlder && (await store.forget?.({ id, fence, reopen: true })) === true) return;
  throw cannotCopy(record, "the new home has another outcome for it");
}

/**
 * A repeated move owns the claim that an interrupted one left. A claim that was given up is spent, so the next one has another token:
 * the fence that it found is a part of it.
 */
function copyToken({ id, token, fence, state }: StoreRecord, there: StoreRecord | undefined): string {
  const text = `nevertwice/move/1 ${id} ${token} ${fence} ${state}`;
  const start = createHash("sha256").update(text).digest("base64url").slice(0, 28);
  const isOurs =
    there?.token.startsWith(`${start}-`) && (there.state === "pending" || there.state === "lapsed");
  return isOurs ? (there as StoreRecord).token : `${start}-${(there?.fence ?? 0).toString(36)}`;
}

function cannotCopy({ id }: StoreRecord, why: string): NevertwiceError {
  return new NevertwiceError("request-invalid", `the record ${id} cannot be copied: ${why}.`);
}
