/**
 * One damaged cell in a database of reservations: a small data set is written, one cell of one row is overwritten with
 * garbage, and every read is called. No call may fail with a foreign error, no action may do what was not allowed, the
 * audit must report the damage, and everything that does not depend on the row must work.
 */
import { randomUUID } from "node:crypto";
import { isNevertwiceError } from "../../src/core/errors.ts";
import {
  type Answer,
  type AuditData,
  createReservations,
  type HoldRequest,
  type ReservationStore,
  type Reservations,
} from "../../src/reservations/index.ts";
import { placedId } from "./desk.ts";

const WINDOW_MS = 3_600_000;

export interface Damaged {
  readonly store: ReservationStore;
  /** Lets the store's time pass by a millisecond at least. */
  pass(): Promise<void>;
  /** Overwrites a cell of one row, which is named by a condition; false if the database refuses it, or it is so already. */
  damage(table: string, column: string, where: string, garbage: string): Promise<boolean>;
  /** A text as the database's statements have it, for a column of names. */
  literal(text: string): string;
}

export interface Cell {
  readonly table: string;
  readonly column: string;
  /** The SQL literal. */
  readonly garbage: string;
}

interface World {
  readonly namespace: string;
  readonly desk: Reservations;
  readonly calls: readonly { readonly ask: () => Promise<Answer>; readonly answer: Answer }[];
  /** Held for the whole hour, of a resource with one unit. */
  readonly seat: string;
  readonly pooled: string;
  readonly healthy: string;
}

const HOLD = { requester: "ann", durationMs: WINDOW_MS };

async function build({ store, pass }: Damaged): Promise<World> {
  const namespace = `n-${randomUUID()}`;
  const desk = createReservations({
    store,
    namespace,
    windowMs: WINDOW_MS,
    actionMs: 60_000,
    purgeEveryMs: 0,
  });
  const calls: { ask: () => Promise<Answer>; answer: Answer }[] = [];
  async function call<Given extends Answer>(ask: () => Promise<Given>): Promise<Given> {
    const answer = await ask();
    calls.push({ ask, answer });
    return answer;
  }
  const hold = (resource: string, more: Partial<HoldRequest> = {}) =>
    call(() => desk.placeHold({ ...HOLD, resource, key: `hold ${resource}`, ...more }));
  await call(() => desk.resources.declare({ resource: "pool", capacity: 5, key: "declare" }));
  const pooled = placedId(await hold("pool", { units: 3 }));
  const seat = placedId(await hold("seat"));
  placedId(await hold("elapsed", { durationMs: 1 }));
  await call(() => desk.confirm({ id: pooled, units: 2, key: "confirm" }));
  const healthy = placedId(await hold("healthy"));
  await call(() => desk.placeHold({ ...HOLD, resource: "seat", key: "refused" }));
  await pass();
  return { namespace, desk, calls, seat, pooled, healthy };
}

/** The row of each table to damage: one with a value in every cell. */
function selectRow({ literal }: Damaged, { namespace, pooled, seat }: World, table: string): string {
  const own = `namespace = ${literal(namespace)}`;
  if (table.endsWith("_commitments")) return `${own} AND id = ${literal(pooled)}`;
  if (table.endsWith("_resources")) return `${own} AND name = ${literal("seat")}`;
  if (table.endsWith("_events"))
    return `${own} AND subject = ${literal(`commitment:${pooled}`)} AND number = 1`;
  if (table.endsWith("_keys")) return `${own} AND commitment = ${literal(seat)}`;
  return own;
}

/** Key columns: another value makes the row unfindable, which reading the row cannot detect. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  keys: ["namespace", "id"],
  resources: ["namespace", "name"],
};

/** The problem after a cell was damaged; undefined if the database refused the damage. */
export async function trial(
  damaged: Damaged,
  { table, column, garbage }: Cell,
): Promise<string[] | undefined> {
  const world = await build(damaged);
  if (!(await damaged.damage(table, column, selectRow(damaged, world, table), garbage))) return undefined;
  const wrong: string[] = [];
  const data = await world.desk.audit().catch((error: unknown) => {
    wrong.push(`the audit failed: ${String(error)}`);
    return undefined;
  });
  if (data !== undefined) wrong.push(...auditProblems(data));
  await readAll(world, wrong);
  const isGone = NAMES[toKind(table)]?.includes(column) ?? false;
  if (!isGone) await askAgain(world, wrong);
  await goOn(world, wrong);
  await world.desk.close();
  return wrong;
}

function toKind(table: string): string {
  return table.replace(/^.*_/, "");
}

function auditProblems({ ok, invariants }: AuditData): string[] {
  const offenders = invariants.flatMap((each) => each.offenders);
  if (ok || offenders.length === 0) return ["the audit found nothing"];
  return offenders
    .filter(({ subject, problem }) => subject === "" || problem === "")
    .map(() => "an empty offender");
}

/** Calls every read. Each returns, or throws a NevertwiceError. */
async function readAll({ desk, seat, pooled }: World, wrong: string[]): Promise<void> {
  const readers: Readonly<Record<string, () => Promise<unknown>>> = {
    auditReport: async () => String(await desk.auditReport()),
    "trace of the pool's hold": () => desk.trace(pooled),
    "trace of the seat's hold": () => desk.trace(seat),
    doubles: () => desk.doubles({ withinMs: WINDOW_MS }),
    get: () => desk.get(pooled),
    list: () => desk.list(),
    "list in pages of one": () => desk.list({ limit: 1 }),
    listHeld: () => desk.listHeld(),
    byResource: () => desk.byResource("pool"),
    byRequester: () => desk.byRequester("ann"),
    history: () => desk.history(pooled),
    resource: () => desk.resource("seat"),
    listResources: () => desk.listResources(),
    "audit in pages of one": () => desk.audit({ pageSize: 1, rowsAtOnce: 1 }),
  };
  for (const [name, read] of Object.entries(readers)) await inOurWords(name, read, wrong);
  for (const name of ["trace of the pool's hold", "trace of the seat's hold", "doubles"])
    await (readers[name] as () => Promise<unknown>)().catch((error: unknown) => {
      wrong.push(`${name} must not fail: ${String(error)}`);
    });
}

async function inOurWords(name: string, call: () => Promise<unknown>, wrong: string[]): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    if (!isNevertwiceError(error)) wrong.push(`${name} failed with ${String(error)}`);
    return undefined;
  }
}

/** Retries get the stored answer or are rejected, and taken units are not given to another requester. */
async function askAgain({ desk, calls }: World, wrong: string[]): Promise<void> {
  for (const [index, { ask, answer }] of calls.entries()) {
    const again = (await inOurWords(`call ${index}`, ask, wrong)) as Answer | undefined;
    if (again?.ok && JSON.stringify(again) !== JSON.stringify(answer))
      wrong.push(`call ${index} was answered ${JSON.stringify(answer)}, and then ${JSON.stringify(again)}`);
  }
  const second = await desk.placeHold({ ...HOLD, resource: "seat", key: "second" });
  if (second.ok) wrong.push("the seat was given twice");
}

/** Everything else works, whatever is damaged. */
async function goOn({ desk, healthy, seat, pooled }: World, wrong: string[]): Promise<void> {
  const actions: Readonly<Record<string, () => Promise<unknown>>> = {
    giveBack: () => desk.giveBack({ id: pooled, key: "give back" }),
    release: () => desk.release({ id: seat, key: "release" }),
    adjust: () => desk.resources.adjust({ resource: "pool", capacity: 9, key: "adjust" }),
    placeHold: () => desk.placeHold({ ...HOLD, resource: "pool", key: "another" }),
    sweep: () => desk.sweep(),
  };
  for (const [name, act] of Object.entries(actions)) await inOurWords(name, act, wrong);
  const done = await Promise.all([
    desk.confirm({ id: healthy, key: "confirm healthy" }),
    desk.placeHold({ ...HOLD, resource: "fresh", key: "fresh" }),
  ]);
  for (const answer of done) if (!answer.ok) wrong.push(`an unrelated action failed: ${answer.detail}`);
  if ((await desk.get(healthy))?.state !== "confirmed") wrong.push("the healthy hold cannot be read");
}
