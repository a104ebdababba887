/** Judges a commitment: its row, its chain of events, and whether both agree. */
import { commitmentSubject, saltedDigest } from "../journal.ts";
import type { KeptCommitment } from "../store.ts";
import { type Chain, judgeChain } from "./chain.ts";
import { type Judgement, openJudgement } from "./findings.ts";
import { ledgerProblem } from "./ledger.ts";

const ENDS = ["confirmed", "released", "expired"];

/** `id` is the id by which the row and the chain were found. */
export function judgeCommitment(
  id: string,
  row: KeptCommitment | undefined,
  chain: Chain | undefined,
): Judgement {
  const judgement = openJudgement();
  const subject = commitmentSubject(id);
  judgement.check("C10", subject, row !== undefined, "it has events, but no row");
  if (chain !== undefined) judgeOwnChain(judgement, subject, chain);
  if (row !== undefined) judgeRow(judgement, subject, row);
  if (row !== undefined && chain !== undefined) judgeBoth(judgement, subject, row, chain);
  if (row === undefined) return judgement;
  judgement.check("J5", subject, chain !== undefined, "it has no events");
  judgement.check("C4", subject, row.id === id && chain !== undefined, () =>
    chain === undefined ? "no event has this id" : `its row has the id ${row.id}`,
  );
  return judgement;
}

/** Judges the events alone, if the row cannot be read. */
export function judgeCommitmentChain(id: string, chain: Chain): Judgement {
  const judgement = openJudgement();
  judgeOwnChain(judgement, commitmentSubject(id), chain);
  return judgement;
}

function judgeRow(judgement: Judgement, subject: string, row: KeptCommitment): void {
  const { state, units, placedAt, expiresAt, endedAt, confirmedUnits } = row;
  const shape = shapeProblem(row);
  judgement.check("C1", subject, shape === undefined, () => shape as string);
  judgement.check(
    "C6",
    subject,
    placedAt < expiresAt,
    () => `placed at ${placedAt}, but expires at ${expiresAt}`,
  );
  const isLate = state === "confirmed" && endedAt !== undefined && endedAt >= expiresAt;
  judgement.check("C7", subject, !isLate, () => `confirmed at ${endedAt}, but expired at ${expiresAt}`);
  const earliest = state === "expired" ? Math.max(placedAt, expiresAt) : placedAt;
  judgement.check(
    "C8",
    subject,
    endedAt === undefined || endedAt >= earliest,
    () => `${state} at ${endedAt}, but ${earliest} is the earliest possible time`,
  );
  const most = state === "held" ? units : state === "confirmed" ? (confirmedUnits ?? 0) : 0;
  const { occupied } = row;
  judgement.check(
    "P3",
    subject,
    Number.isSafeInteger(occupied) &&
      occupied >= 0 &&
      occupied <= most &&
      (state !== "held" || occupied === most),
    () => `it is ${state} and occupies ${occupied} of ${units} units`,
  );
}

function shapeProblem({ state, units, endedAt, confirmedUnits }: KeptCommitment): string | undefined {
  if (state !== "held" && !ENDS.includes(state)) return `${String(state)} is not a state`;
  if (state === "held" && endedAt !== undefined) return `it is held, but ended at ${endedAt}`;
  if (state !== "held" && endedAt === undefined) return `it is ${state}, but has no end time`;
  if (state !== "confirmed" && confirmedUnits !== undefined)
    return `it is ${state}, but has ${confirmedUnits} confirmed units`;
  if (state !== "confirmed") return undefined;
  const isWhole = Number.isSafeInteger(confirmedUnits) && (confirmedUnits as number) >= 1;
  return isWhole && (confirmedUnits as number) <= units
    ? undefined
    : `${confirmedUnits} of ${units} units are confirmed`;
}

function judgeOwnChain(judgement: Judgement, subject: string, chain: Chain): void {
  const { placed, placements, end, misplaced, backwards } = chain;
  judgeChain(judgement, chain);
  judgement.check("C3", subject, misplaced.length === 0, () => misplaced.join("; "));
  judgement.check("C9", subject, placements <= 1, () => `it was placed ${placements} times`);
  judgement.check("C2", subject, placed !== undefined, "it has no placed event");
  judgement.check("C8", subject, backwards.length === 0, () => backwards.join("; "));
  const isLate = end?.kind === "confirmed" && placed !== undefined && end.at >= Number(placed.expiresAt);
  judgement.check("C7", subject, !isLate, () => `its event was confirmed at ${end?.at}, after it expired`);
}

function judgeBoth(judgement: Judgement, subject: string, row: KeptCommitment, chain: Chain): void {
  const { placed, end } = chain;
  const { state, occupied } = row;
  judgement.check(
    "C2",
    subject,
    state === "held" || end !== undefined,
    () => `it is ${state}, but no event ends it`,
  );
  judgement.check(
    "C3",
    subject,
    end === undefined || state === end.kind,
    () => `its event says ${end?.kind}, but its row says ${state}`,
  );
  judgement.check(
    "J1",
    subject,
    row.resource === chain.resource,
    () => `its events are in the chain of ${String(chain.resource)}`,
  );
  const isErased = row.requester === "" && row.requesterSalt === "";
  if (placed !== undefined) {
    const names: string[] = (["resource", "units", "expiresAt"] as const).filter(
      (name) => row[name] !== placed[name],
    );
    const { requester, requesterSalt } = row;
    const isKept = !isErased && saltedDigest(requesterSalt, requester) === placed.requester;
    // An erased requester is missing, and an event says so.
    if (isErased !== chain.isErased || !(isErased || isKept)) names.push("requester");
    const changed = row.placedAt === placed.at ? names : [...names, "placedAt"];
    judgement.check(
      "C5",
      subject,
      changed.length === 0,
      () => `changed since it was placed: ${changed.join(", ")}`,
    );
  }
  if (end?.kind === "confirmed" && state === "confirmed")
    judgement.check(
      "P3",
      subject,
      occupied === Number(end.units) - chain.givenBack,
      () =>
        `${end.units} units were confirmed and ${chain.givenBack} given back, but it occupies ${occupied}`,
    );
  const problem = endProblem(row, chain) ?? ledgerProblem(row, { ...chain, hash: chain.lastHash });
  judgement.check("J4", subject, problem === undefined, () => problem as string);
}

function endProblem({ state, endedAt, confirmedUnits }: KeptCommitment, { end }: Chain): string | undefined {
  if (end === undefined || state !== end.kind) return undefined;
  if (endedAt !== end.at) return `its row ended at ${endedAt}, its event at ${end.at}`;
  if (state === "confirmed" && confirmedUnits !== end.units)
    return `its row has ${confirmedUnits} confirmed units, its event ${String(end.units)}`;
  return undefined;
}
