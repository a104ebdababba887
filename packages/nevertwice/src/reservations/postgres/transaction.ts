/**
 * One transaction for a group of actions: five round trips, however many they are.
 *
 *   BEGIN ─▶ lock ─▶ read, and the clock ─▶ decide ─▶ write ─▶ COMMIT
 *     └────────── a failure up to here: nothing was written ─────┘ └─ no reply: ask for one of its keys, and wait for
 *                                                                    whoever has it locked
 */
import { randomUUID } from "node:crypto";
import type { Ask, Asking, Row } from "../../stores/postgres/client.ts";
import { plainArray, textArray } from "../../stores/postgres/wire.ts";
import type { Answer } from "../answer.ts";
import type { Asked } from "../asked.ts";
import { type Found, type KeptCommitment, MayBeWritten, NotWritten, type Rules } from "../ledger.ts";
import type { Statements } from "../postgres-sql.ts";
import { type Decided, decide, needsOf } from "../reservations.ts";
import { commitmentOf, keyOf, keysText, loaded, resourceOf, rowsText, stored } from "./rows.ts";

export interface Ledger {
  /** Makes sure that the tables are there, the first time. */
  ready(): unknown;
  readonly asking: Asking;
  readonly statements: Statements;
}

export async function transact(
  { ready, asking, statements }: Ledger,
  group: readonly Asked[],
  rules: Rules,
): Promise<readonly Answer[]> {
  const id = randomUUID();
  let decided: Decided | undefined;
  try {
    await ready();
    await asking.transact(async (ask) => {
      decided = await carryOut(ask, statements, { id, group, rules });
    });
  } catch (error) {
    const failure =
      decided === undefined
        ? new NotWritten(error)
        : await settle(asking, statements, { id, namespace: rules.namespace, decided, error });
    if (failure !== undefined) throw failure;
  }
  return (decided as unknown as Decided).answers;
}

interface Work {
  readonly id: string;
  readonly group: readonly Asked[];
  readonly rules: Rules;
}

async function carryOut(ask: Ask, statements: Statements, { id, group, rules }: Work): Promise<Decided> {
  const namespace = stored(rules.namespace);
  const needs = needsOf(group);
  const keyIds = textArray(needs.keyIds);
  const commitmentIds = namesArray(needs.commitmentIds);
  const locked = await ask(statements.lock, [namespace, keyIds, namesArray(needs.resources), commitmentIds]);
  const names = locked.map(([name]) => loaded(name as string));
  const rows = await ask(statements.read, [
    namespace,
    keyIds,
    namesArray(names),
    commitmentIds,
    namesArray(needs.placements.map(({ resource }) => resource)),
    plainArray(needs.placements.map(({ most }) => most)),
  ]);
  const { found, now } = foundIn(rows, names);
  const decided = decide(group, found, now, rules, id);
  const { keys, resources, commitments, events, checkpoint } = decided.writes;
  const written = new Set(resources.map(({ name }) => name));
  const unneeded = names.filter((name) => !found.resources.has(name) && !written.has(name));
  if (keys.length + unneeded.length > 0)
    await ask(statements.write, [
      keysText(keys, id),
      rowsText(resources),
      rowsText(commitments),
      rowsText(events),
      rowsText(checkpoint === undefined ? [] : [checkpoint]),
      namespace,
      namesArray(unneeded),
    ]);
  return decided;
}

/** Text with half a surrogate pair is in no table. */
function namesArray(names: readonly string[]): string {
  return textArray(names.filter((name) => name.isWellFormed()).map(stored));
}

function foundIn(rows: readonly Row[], names: readonly string[]): { found: Found; now: number } {
  const keys: Row[] = [];
  const resources: Row[] = [];
  const commitments: Row[] = [];
  const elapsed = new Map<string, KeptCommitment[]>(names.map((name) => [name, []]));
  let now = Number.NaN;
  for (const [kind, ...row] of rows) {
    if (kind === "now") now = Number(row[0]);
    else if (kind === "key") keys.push(row);
    else if (kind === "resource") resources.push(row);
    else if (kind === "commitment") commitments.push(row);
    else {
      const hold = commitmentOf(row);
      elapsed.get(hold.resource)?.push(hold);
    }
  }
  const found = {
    keys: new Map(keys.map(keyOf).map((key) => [key.id, key])),
    resources: new Map(resources.map(resourceOf).map((resource) => [resource.name, resource])),
    commitments: new Map(commitments.map(commitmentOf).map((commitment) => [commitment.id, commitment])),
    elapsed,
  };
  // It was placed while we waited for a lock, so its resource is not locked.
  const late = [...found.commitments.values()].find(({ resource }) => !elapsed.has(resource));
  if (late !== undefined) throw new Error(`the commitment ${late.id} was placed meanwhile`);
  return { found, now };
}

interface Unanswered {
  readonly id: string;
  readonly namespace: string;
  readonly decided: Decided;
  readonly error: unknown;
}

/**
 * COMMIT failed. One key is as good as all of them, since they are written together; but a look that waits for nobody
 * could come before a COMMIT that is still under way. Undefined if it was written.
 */
async function settle(
  asking: Asking,
  { lock, written }: Statements,
  { id, decided, error, ...unanswered }: Unanswered,
): Promise<NotWritten | MayBeWritten | undefined> {
  const [key] = decided.writes.keys;
  if (key === undefined) return undefined;
  const namespace = stored(unanswered.namespace);
  let isThere: boolean | undefined;
  try {
    await asking.transact(async (ask) => {
      await ask(lock, [namespace, textArray([key.id]), "{}", "{}"]);
      isThere = (await ask(written, [namespace, key.id, id])).length > 0;
      throw new Error("this was only a look: it is rolled back");
    });
  } catch (failed) {
    if (isThere === undefined) return new MayBeWritten(decided.answers, failed);
  }
  return isThere ? undefined : new NotWritten(error);
}
