/** Judges a resource: its row, its chain of events if it was declared, and the units that its commitments occupy. */
import { resourceSubject } from "../journal.ts";
import type { KeptResource } from "../store.ts";
import { type Chain, judgeChain } from "./chain.ts";
import { type Judgement, openJudgement } from "./findings.ts";
import { type Ledger, ledgerProblem } from "./ledger.ts";

/** The sum over all commitments of a resource. */
export interface OccupiedUnits {
  units: number;
  /** When the last commitment was placed. */
  lastPlacedAt: number;
}

/** What the audit found about a resource besides its row. */
export interface ResourceFacts {
  /** Its own events. */
  readonly chain: Chain | undefined;
  readonly occupied: OccupiedUnits | undefined;
  /** All events in its chain, those of its commitments included. */
  readonly ledger: Ledger | undefined;
}

export function judgeResource(
  name: string,
  row: KeptResource | undefined,
  { chain, occupied, ledger }: ResourceFacts,
): Judgement {
  const judgement = openJudgement();
  const subject = resourceSubject(name);
  if (chain !== undefined) judgeOwnChain(judgement, subject, chain, occupied);
  const units = occupied?.units ?? 0;
  judgement.check(
    "P2",
    subject,
    (row?.taken ?? 0) === units,
    () =>
      `its row ${row === undefined ? "is missing" : `counts ${row.taken} units taken`}, but its commitments occupy ${units}`,
  );
  const declared = declaredProblem(row, chain);
  judgement.check("P5", subject, declared === undefined, () => declared as string);
  judgement.check("J5", subject, (row === undefined) === (ledger === undefined), () =>
    row === undefined ? "it has events, but no row" : "it has no events",
  );
  if (ledger !== undefined)
    judgement.check(
      "J1",
      subject,
      ledger.count === ledger.last,
      () => `its chain has ${ledger.count} events, but the last one is entry ${ledger.last}`,
    );
  if (row === undefined) return judgement;
  const { taken, capacity, state } = row;
  const areWhole = Number.isSafeInteger(taken) && Number.isSafeInteger(capacity);
  judgement.check(
    "P1",
    subject,
    areWhole && taken >= 0 && taken <= capacity,
    () => `${taken} units are taken of a capacity of ${capacity}`,
  );
  judgement.check(
    "P4",
    subject,
    chain?.closedAt === undefined || state === "closed",
    () => `it was closed, but is ${state}`,
  );
  const last = ledger && ledgerProblem(row, ledger);
  judgement.check("J4", subject, last === undefined, () => last as string);
  return judgement;
}

/** Judges the events and the commitments, if the row cannot be read. */
export function judgeResourceChain(
  name: string,
  chain: Chain,
  occupied: OccupiedUnits | undefined,
): Judgement {
  const judgement = openJudgement();
  judgeOwnChain(judgement, resourceSubject(name), chain, occupied);
  return judgement;
}

function judgeOwnChain(
  judgement: Judgement,
  subject: string,
  chain: Chain,
  occupied: OccupiedUnits | undefined,
): void {
  const { closedAt, misplaced } = chain;
  judgeChain(judgement, chain);
  judgement.check("P4", subject, misplaced.length === 0, () => misplaced.join("; "));
  const isLate = closedAt !== undefined && occupied !== undefined && occupied.lastPlacedAt > closedAt;
  judgement.check(
    "P4",
    subject,
    !isLate,
    () => `closed at ${closedAt}, but a hold was placed at ${occupied?.lastPlacedAt}`,
  );
}

function declaredProblem(row: KeptResource | undefined, chain: Chain | undefined): string | undefined {
  const governed = chain?.governed;
  if (row === undefined) return governed && "it was declared, but has no row";
  const { capacity, state, isDeclared } = row;
  if (isDeclared !== (governed !== undefined))
    return isDeclared
      ? "it is declared, but has no declared event"
      : "it was declared, but its row says that it is not";
  if (governed !== undefined && (capacity !== governed.capacity || state !== governed.state))
    return `its row has capacity ${capacity} and is ${state}, its last event has ${String(governed.capacity)} and ${String(governed.state)}`;
  if (governed === undefined && (capacity !== 1 || state !== "open"))
    return `it is not declared, but has capacity ${capacity} and is ${state}`;
  return undefined;
}
