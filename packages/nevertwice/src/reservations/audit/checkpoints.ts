/** Checks that each checkpoint has all of its events and no others, and that each event has its checkpoint. */
import { type Checkpoint, digestHashes, type JournalEvent } from "../journal.ts";
import type { AuditContext } from "./context.ts";
import { type Findings, type Judgement, openJudgement } from "./findings.ts";
import { scanPages } from "./page-scan.ts";

export interface CollectedCheckpoint {
  readonly row: Checkpoint;
  readonly hashes: string[];
  /** An event whose time differs from that of the checkpoint. */
  stray: string | undefined;
}

export interface CheckpointShare {
  readonly checkpoints: Map<string, CollectedCheckpoint>;
  /** Checkpoints that events refer to and that were not found, with the subject of such an event. */
  readonly unknown: Map<string, string>;
}

export function addToCheckpoint({ checkpoints, unknown }: CheckpointShare, event: JournalEvent): void {
  const { checkpoint, subject, hash, at, number } = event;
  const kept = checkpoints.get(checkpoint);
  if (kept === undefined) unknown.set(checkpoint, subject);
  else {
    kept.hashes.push(hash);
    if (kept.row.at !== at) kept.stray ??= `event ${number} of ${subject}`;
  }
}

/** Reads the checkpoints again. One that is still missing was removed or never written, since it is committed together with its events. */
export async function settleUnknown(
  context: AuditContext,
  findings: Findings,
  unknown: Map<string, string>,
  isUnreadable: (kind: "checkpoint", name: string) => boolean,
): Promise<void> {
  for (const id of unknown.keys()) if (isUnreadable("checkpoint", id)) unknown.delete(id);
  if (unknown.size === 0) return;
  for await (const rows of checkpointPages(context)) for (const { id } of rows) unknown.delete(id);
  const judgement = openJudgement();
  for (const [id, subject] of unknown)
    judgement.check("J3", subject, false, `the checkpoint ${id} of its event is missing`);
  findings.add(judgement);
  unknown.clear();
}

export function judgeCheckpoint({ row, hashes, stray }: CollectedCheckpoint): Judgement {
  const judgement = openJudgement();
  const { id, events, digest } = row;
  const problem =
    events !== hashes.length || events === 0
      ? `it covers ${events} events, and ${hashes.length} were found`
      : digest !== digestHashes(hashes)
        ? "its digest does not match its events"
        : stray && `${stray} has another time`;
  judgement.check("J3", `checkpoint:${id}`, problem === undefined, () => problem as string);
  return judgement;
}

export function checkpointPages(context: AuditContext): AsyncGenerator<readonly Checkpoint[]> {
  return scanPages(context, (query) => context.store.checkpoints(query));
}
