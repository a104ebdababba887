/** Counts the rows of one audit round by kind, and notes which of them cannot be read. */
import { type UnreadableRow, unreadableText } from "../stored-rows.ts";
import type { AuditContext } from "./context.ts";
import { type Findings, openJudgement } from "./findings.ts";

export type RecordKind = "checkpoint" | "event" | "commitment" | "resource" | "key";

export interface RowTally {
  /** The same context, which notes rows of this kind that cannot be read. */
  withTally(context: AuditContext, kind: RecordKind): AuditContext;
  /** Counts rows that were read. */
  count(kind: RecordKind, count: number): void;
  /** How many rows there are, including those that cannot be read. */
  totals(): Readonly<Record<RecordKind, number>>;
  /** Whether the row cannot be read. Only for names in the share of this round. */
  isUnreadable(kind: RecordKind, name: string): boolean;
}

/** If `findings` is given, rows that cannot be read are added to it. */
export function createRowTally(isMine: (name: string) => boolean, findings: Findings | undefined): RowTally {
  const counts = { checkpoint: 0, event: 0, commitment: 0, resource: 0, key: 0 };
  const names = new Set<string>();

  function note(kind: RecordKind, rows: readonly UnreadableRow[]): void {
    counts[kind] += rows.length;
    const judgement = openJudgement();
    for (const unreadable of rows) {
      const subject = `${kind}:${unreadable.row}`;
      if (isMine(unreadable.row)) names.add(subject);
      judgement.check("S1", subject, false, () => unreadableText(unreadable));
    }
    findings?.add(judgement);
  }

  return {
    withTally: (context, kind) => ({ ...context, notice: (rows) => note(kind, rows) }),
    count(kind, count) {
      counts[kind] += count;
      const judgement = openJudgement();
      judgement.pass("S1", count);
      findings?.add(judgement);
    },
    totals: () => ({ ...counts }),
    isUnreadable: (kind, name) => names.has(`${kind}:${name}`),
  };
}
