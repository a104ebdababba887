/** Judges a commitment: its row by itself, and its row beside its chain. */
import { commitmentSubject } from "../journal.ts";
import type { KeptCommitment } from "../ledger.ts";
import { type Chain, judgeChain } from "./chain.ts";
import { type Judgement, openJudgement } from "./findings.ts";

const ENDS = ["confirmed", "released", "expired"];

/** `id` is what it was looked up by. */
export function judgeCommitment(
  id: string,
  row: KeptCommitment | undefined,
  chain: Chain | undefined,
): Judgement {
  const judgement = openJudgement();
  const subject = commitmentSubject(id);
  judgement.ask("C10", subject, row !== undefined, "its events are there, and its row is not");
  if (chain !== undefined) judgeOwnChain(judgement, subject, chain);
  if (row !== undefined) judgeRow(judgement, subject, row);
  if (row !== undefined && chain !== undefined) judgeBoth(judgement, subject, row, chain);
  if (row === undefined) return judgement;
  judgement.ask("J5", subject, chain !== undefined, "it has no events");
  judgement.ask("C4", subject, row.id === id && chain !== undefined, () =>
    chain === undefined ? "no event knows this id" : `its row calls itself ${row.id}`,
  );
  return judgement;
}

function judgeRow(judgement: Judgement, subject: string, row: KeptCommitment): void {
  const { state, units, placedAt, expiresAt, endedAt, confirmedUnits } = row;
  const shape = shapeProblem(row);
  judgement.ask("C1", subject, shape === undefined, () => shape as string);
  judgement.ask(
    "C6",
    subject,
    placedAt < expiresAt,
    () => `placed at ${placedAt}, and its time ends at ${expiresAt}`,
  );
  const isLate = state === "confirmed" && endedAt !== undefined && endedAt >= expiresAt;
  judgement.ask("C7", subject, !isLate, () => `confirmed at ${endedAt}, and its time ended at ${expiresAt}`);
  const earliest = state === "expired" ? Math.max(placedAt, expiresAt) : placedAt;
  judgement.ask(
    "C8",
    subject,
    endedAt === undefined || endedAt >= earliest,
    () => `${state} at ${endedAt}, which cannot be before ${earliest}`,
  );
  const most = state === "held" ? units : state === "confirmed" ? (confirmedUnits ?? 0) : 0;
  const { occupied } = row;
  judgement.ask(
    "P3",
    subject,
    Number.isSafeInteger(occupied) &&
      occupied >= 0 &&
      occupied <= most &&
      (state !== "held" || occupied === most),
    () => `it is ${state} and occupies ${occupied} of ${units}`,
  );
}

function shapeProblem({ state, units, endedAt, confirmedUnits }: KeptCommitment): string | undefined {
  if (state !== "held" && !ENDS.includes(state)) return `it is ${String(state)}, which is no state`;
  if (state === "held" && endedAt !== undefined) return `it is held and ended at ${endedAt}`;
  if (state !== "held" && endedAt === undefined) return `it is ${state} and has no end`;
  if (state !== "confirmed" && confirmedUnits !== undefined)
    return `it is ${state} and ${confirmedUnits} were confirmed`;
  if (state !== "confirmed") return undefined;
  const isWhole = Number.isSafeInteger(confirmedUnits) && (confirmedUnits as number) >= 1;
  return isWhole && (confirmedUnits as number) <= units
    ? undefined
    : `${confirmedUnits} of ${units} were confirmed`;
}

function judgeOwnChain(judgement: Judgement, subject: string, chain: Chain): void {
  const { placed, placements, end, misplaced, backwards } = chain;
  judgeChain(judgement, chain);
  judgement.ask("C3", subject, misplaced.length === 0, () => misplaced.join("; "));
  judgement.ask("C9", subject, placements <= 1, () => `it was placed ${placements} times`);
  judgement.ask("C2", subject, placed !== undefined, "no event says that it was placed");
  judgement.ask("C8", subject, backwards.length === 0, () => backwards.join("; "));
  const isLate = end?.kind === "confirmed" && placed !== undefined && end.at >= Number(placed.expiresAt);
  judgement.ask("C7", subject, !isLate, () => `its event says confirmed at ${end?.at}, past its time`);
}

function judgeBoth(judgement: Judgement, subject: string, row: KeptCommitment, chain: Chain): void {
  const { placed, end } = chain;
  const { state, occupied } = row;
  judgement.ask(
    "C2",
    subject,
    state === "held" || end !== undefined,
    () => `it is ${state}, and no event says how it ended`,
  );
  judgement.ask(
    "C3",
    subject,
    end === undefined || state === end.kind,
    () => `it was ${end?.kind} and is ${state}`,
  );
  if (placed !== undefined) {
    const names = (["resource", "requester", "units", "expiresAt"] as const).filter(
      (name) => row[name] !== placed[name],
    );
    const changed = row.placedAt === placed.at ? names : [...names, "placedAt"];
    judgement.ask("C5", subject, changed.length === 0, () => `not as it was placed: ${changed.join(", ")}`);
  }
  if (end?.kind === "confirmed" && state === "confirmed")
    judgement.ask(
      "P3",
      subject,
      occupied === Number(end.units) - chain.givenBack,
      () => `${end.units} were confirmed, ${chain.givenBack} given back, and it occupies ${occupied}`,
    );
  const problem = endProblem(row, chain) ?? lastProblem(row, chain);
  judgement.ask("J4", subject, problem === undefined, () => problem as string);
}

function endProblem({ state, endedAt, confirmedUnits }: KeptCommitment, { end }: Chain): string | undefined {
  if (end === undefined || state !== end.kind) return undefined;
  if (endedAt !== end.at) return `it ended at ${endedAt}, and by its event at ${end.at}`;
  if (state === "confirmed" && confirmedUnits !== end.units)
    return `${confirmedUnits} were confirmed, and by its event ${String(end.units)}`;
  return undefined;
}

/** How a row's end of its chain differs from the chain. */
export function lastProblem(
  row: { readonly events: number; readonly lastHash: string },
  chain: Chain | undefined,
): string | undefined {
  const count = chain?.count ?? 0;
  if (row.events !== count) return `its row counts ${row.events} events, and there are ${count}`;
  if (row.lastHash !== (chain?.lastHash ?? "")) return "its row has another last hash than its chain";
  return undefined;
}
