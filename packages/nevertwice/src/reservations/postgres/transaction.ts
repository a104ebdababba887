/**
 * A group of actions as one Postgres transaction: five round trips for any number of actions.
 *
 *   BEGIN ─▶ lock ─▶ read rows and clock ─▶ decide ─▶ write ─▶ COMMIT
 *     └────────── a failure up to here: nothing was written ─────┘ └─ no reply: lock one of its keys, then look for it
 */
import type {
  PostgresRow,
  PostgresRunner,
  RunStatement,
  TransactionLimits,
} from "../../stores/postgres/client.ts";
import { cancelledAfter, plainArray, textArray } from "../../stores/postgres/client.ts";
import { isLockTimeout } from "../../stores/postgres/errors.ts";
import type { ActionRequest } from "../action-request.ts";
import type { Answer } from "../answer.ts";
import { decide, type GroupDecision, neededRows } from "../decision.ts";
import type { OpenTransactions } from "../open-transactions.ts";
import { requireLockedResources } from "../placed-meanwhile.ts";
import { LOCK_TIMEOUT_MS, type Statements } from "../postgres-sql.ts";
import { type KeptCommitment, type LockedRows, MayBeWritten, NotWritten, type Rules } from "../store.ts";
import { requireReadable } from "../stored-rows.ts";
import { createTimeOrderedId } from "../time-ordered-id.ts";
import { escapeText, toCommitment, toKey, toResource, unescapeText } from "./rows.ts";
import { toWriteParameters } from "./written-rows.ts";

export interface TransactionContext {
  /** Checks the tables before the first transaction. */
  ready(): unknown;
  readonly asking: PostgresRunner;
  readonly statements: Statements;
}

/**
 * How long a group waits for a lock before it looks, or looks again, whether a transaction of the application has it. Other
 * actions wait behind the group.
 */
const LOOK_MS = 300;

interface LockMode {
  /** Look for transactions of the application before anything is locked. */
  readonly looksFirst: boolean;
  readonly lockTimeoutMs: number;
}

/** Throws `NotWritten` or `MayBeWritten`; with `looksFirst` also `Locked`, and then nothing was written. */
export async function transact(
  { ready, asking, statements }: TransactionContext,
  group: readonly ActionRequest[],
  rules: Rules,
  mode: LockMode = { looksFirst: false, lockTimeoutMs: LOCK_TIMEOUT_MS },
): Promise<readonly Answer[]> {
  const id = createTimeOrderedId();
  let decision: GroupDecision | undefined;
  try {
    await ready();
    await asking.transact(async (ask) => {
      decision = await decideAndWrite(ownSteps(ask, statements, mode), { id, group, rules });
    }, bounds());
  } catch (error) {
    if (error instanceof Locked) throw error;
    const failure =
      decision === undefined
        ? new NotWritten(error)
        : await settleCommit(asking, statements, { id, namespace: rules.namespace, decision, error });
    if (failure !== undefined) throw failure;
  }
  return (decision as unknown as GroupDecision).answers;
}

/** A transaction without an answer for this long is also cancelled at the server. Callers wait only for `actionMs`. */
export const GIVEN_UP_MS = 30_000;

function bounds(): TransactionLimits {
  return { isCancelled: cancelledAfter(GIVEN_UP_MS), lockTimeoutMs: LOCK_TIMEOUT_MS };
}

export interface TransactionInput {
  readonly id: string;
  readonly group: readonly ActionRequest[];
  readonly rules: Rules;
}

/** The statements of a transaction, on a connection of the store or of the application. */
export interface TransactionSteps {
  /** Returns the names of the resources that it locked. */
  lock(parameters: readonly string[]): Promise<readonly string[]>;
  read(parameters: readonly string[]): Promise<readonly PostgresRow[]>;
  write(parameters: readonly string[]): Promise<unknown>;
}

function ownSteps(
  ask: RunStatement,
  statements: Statements,
  { looksFirst, lockTimeoutMs }: LockMode,
): TransactionSteps {
  return {
    async lock(parameters) {
      const statement = looksFirst ? statements.lockUnlessOpen : statements.lock;
      const rows = await ask(statement, [...parameters, String(lockTimeoutMs)]);
      const taken = rows.filter(([, kind]) => typeof kind === "string");
      if (taken.length > 0)
        throw new Locked(taken.map(([name, kind]) => toTaken(String(kind), String(name))));
      return rows.map(([name]) => unescapeText(name as string));
    },
    read: (parameters) => ask(statements.read, parameters),
    write: (parameters) => ask(statements.write, parameters),
  };
}

/** A transaction of the application has locked what these actions need. Nothing was locked or written. */
class Locked extends Error {
  private readonly taken: ReadonlySet<string>;
  constructor(taken: readonly string[]) {
    super("a transaction of the application has locked it");
    this.taken = new Set(taken);
  }
  has({ keyId, erasesKey, parameters }: ActionRequest): boolean {
    const { resource, id } = parameters;
    return [
      toTaken("key", keyId),
      toTaken("key", erasesKey),
      toTaken("resource", resource),
      toTaken("commitment", id),
    ].some((name) => this.taken.has(name));
  }
}

function toTaken(kind: string, name: unknown): string {
  return `${kind} ${typeof name === "string" ? unescapeText(name) : ""}`;
}

export interface SkippingContext extends TransactionContext {
  readonly open: OpenTransactions;
}

/** Carries out the actions that no transaction of the application delays. Undefined: one has locked what the action needs. */
export async function transactSkippingLocked(
  context: SkippingContext,
  group: readonly ActionRequest[],
  rules: Rules,
  lockTimeoutMs = LOOK_MS,
): Promise<readonly (Answer | undefined)[]> {
  const { open } = context;
  try {
    return await transact(context, group, rules, { looksFirst: open.areExpected(), lockTimeoutMs });
  } catch (error) {
    if (!(error instanceof Locked)) {
      if (lockTimeoutMs === LOCK_TIMEOUT_MS || !(error instanceof NotWritten && isLockTimeout(error)))
        throw error;
      open.expect();
      // If the lock is not one of the application, many groups want it, and this one waits for its turn.
      return transactSkippingLocked(context, group, rules, LOCK_TIMEOUT_MS);
    }
    open.expect();
    const free = group.filter((request) => !error.has(request));
    // Each round takes out at least one action.
    const answers = free.length === 0 ? [] : await transactSkippingLocked(context, free, rules);
    return group.map((request) => (free.includes(request) ? answers[free.indexOf(request)] : undefined));
  }
}

export async function decideAndWrite(
  steps: TransactionSteps,
  { id, group, rules }: TransactionInput,
): Promise<GroupDecision> {
  const namespace = escapeText(rules.namespace);
  const needs = neededRows(group);
  const keyIds = textArray(needs.keyIds);
  const commitmentIds = namesArray(needs.commitmentIds);
  const names = await steps.lock([namespace, keyIds, namesArray(needs.resources), commitmentIds]);
  const rows = await steps.read([
    namespace,
    keyIds,
    namesArray(names),
    commitmentIds,
    namesArray(needs.placements.map(({ resource }) => resource)),
    plainArray(needs.placements.map(({ most }) => most)),
  ]);
  const { found, now } = toLockedRows(rows, names);
  const decision = decide(group, found, now, rules, id);
  const { keys, resources } = decision.writes;
  const written = new Set(resources.map(({ name }) => name));
  const unneeded = names.filter((name) => !found.resources.has(name) && !written.has(name));
  if (keys.length + unneeded.length > 0)
    await steps.write(toWriteParameters(decision.writes, { namespace, id, unneeded: namesArray(unneeded) }));
  return decision;
}

/** Leaves out text with a lone surrogate: no table contains it. */
function namesArray(names: readonly string[]): string {
  return textArray(names.filter((name) => name.isWellFormed()).map(escapeText));
}

function toLockedRows(
  rows: readonly PostgresRow[],
  names: readonly string[],
): { found: LockedRows; now: number } {
  const keys: PostgresRow[] = [];
  const resources: PostgresRow[] = [];
  const commitments: PostgresRow[] = [];
  const elapsed = new Map<string, KeptCommitment[]>(names.map((name) => [name, []]));
  let now = Number.NaN;
  for (const [kind, ...row] of rows) {
    if (kind === "now") now = Number(row[0]);
    else if (kind === "key") keys.push(row);
    else if (kind === "resource") resources.push(row);
    else if (kind === "commitment") commitments.push(row);
    else {
      // A hold that cannot be read cannot be expired: it keeps its units.
      const read = toCommitment(row);
      if ("row" in read) elapsed.get(read.row.resource)?.push(read.row);
    }
  }
  const found = {
    keys: new Map(keys.map((row) => requireReadable(toKey(row))).map((key) => [key.id, key])),
    resources: new Map(
      resources.map((row) => requireReadable(toResource(row))).map((resource) => [resource.name, resource]),
    ),
    commitments: new Map(
      commitments
        .map((row) => requireReadable(toCommitment(row)))
        .map((commitment) => [commitment.id, commitment]),
    ),
    elapsed,
  };
  requireLockedResources(found, names);
  return { found, now };
}

interface UnansweredCommit {
  readonly id: string;
  readonly namespace: string;
  readonly decision: GroupDecision;
  readonly error: unknown;
}

/**
 * Finds out whether a failed COMMIT succeeded after all; returns undefined if it did. One key is enough, since all keys
 * are written together. The key is locked first: without the lock, the read could overtake a COMMIT that is still running.
 */
async function settleCommit(
  asking: PostgresRunner,
  { lock, written }: Statements,
  { id, decision, error, ...unanswered }: UnansweredCommit,
): Promise<NotWritten | MayBeWritten | undefined> {
  const [key] = decision.writes.keys;
  if (key === undefined) return undefined;
  const namespace = escapeText(unanswered.namespace);
  let isThere: boolean | undefined;
  try {
    await asking.transact(async (ask) => {
      await ask(lock, [namespace, textArray([key.id]), "{}", "{}", String(LOCK_TIMEOUT_MS)]);
      isThere = (await ask(written, [namespace, key.id, id])).length > 0;
      throw new Error("roll back: this transaction only reads");
    }, bounds());
  } catch (failed) {
    if (isThere === undefined) return new MayBeWritten(decision.answers, failed);
  }
  return isThere ? undefined : new NotWritten(error);
}
