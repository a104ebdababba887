/** Judges a resource: its row, its chain if it was declared, and what its commitments occupy. */
import { resourceSubject } from "../journal.ts";
import type { KeptResource } from "../ledger.ts";
import { type Chain, judgeChain } from "./chain.ts";
import { type Judgement, openJudgement } from "./findings.ts";
import { lastProblem } from "./judge-commitment.ts";

/** All commitments of a resource, added up. */
export interface Occupied {
  units: number;
  /** When the last one was placed. */
  lastPlacedAt: number;
}

export function judgeResource(
  name: string,
  row: KeptResource | undefined,
  chain: Chain | undefined,
  occupied: Occupied | undefined,
): Judgement {
  const judgement = openJudgement();
  const subject = resourceSubject(name);
  if (chain !== undefined) judgeOwnChain(judgement, subject, chain, occupied);
  const units = occupied?.units ?? 0;
  judgement.ask(
    "P2",
    subject,
    (row?.taken ?? 0) === units,
    () => `${row?.taken ?? "no row says how many"} are taken, and its commitments occupy ${units}`,
  );
  const declared = declaredProblem(row, chain);
  judgement.ask("P5", subject, declared === undefined, () => declared as string);
  if (row === undefined) return judgement;
  const { taken, capacity, state } = row;
  const areWhole = Number.isSafeInteger(taken) && Number.isSafeInteger(capacity);
  judgement.ask(
    "P1",
    subject,
    areWhole && taken >= 0 && taken <= capacity,
    () => `${taken} are taken of ${capacity}`,
  );
  judgement.ask(
    "P4",
    subject,
    chain?.closedAt === undefined || state === "closed",
    () => `it was closed and is ${state}`,
  );
  const last = lastProblem(row, chain);
  judgement.ask("J4", subject, last === undefined, () => last as string);
  return judgement;
}

function judgeOwnChain(
  judgement: Judgement,
  subject: string,
  chain: Chain,
  occupied: Occupied | undefined,
): void {
  const { closedAt, misplaced } = chain;
  judgeChain(judgement, chain);
  judgement.ask("P4", subject, misplaced.length === 0, () => misplaced.join("; "));
  const isLate = closedAt !== undefined && occupied !== undefined && occupied.lastPlacedAt > closedAt;
  judgement.ask(
    "P4",
    subject,
    !isLate,
    () => `closed at ${closedAt}, and something was placed at ${occupied?.lastPlacedAt}`,
  );
}

function declaredProblem(row: KeptResource | undefined, chain: Chain | undefined): string | undefined {
  const governed = chain?.governed;
  if (row === undefined) return governed && "it was declared, and its row is not there";
  const { capacity, state, isDeclared } = row;
  if (isDeclared !== (governed !== undefined))
    return isDeclared
      ? "no event says that it was declared"
      : "it was declared, and its row says that it was not";
  if (governed !== undefined && (capacity !== governed.capacity || state !== governed.state))
    return `${capacity} and ${state}, and by its last event ${String(governed.capacity)} and ${String(governed.state)}`;
  if (governed === undefined && (capacity !== 1 || state !== "open"))
    return `nobody declared it, and it is ${capacity} and ${state}`;
  return undefined;
}
