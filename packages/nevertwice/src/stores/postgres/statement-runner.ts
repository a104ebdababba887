/**
 * Runs statements on the application's client, with one interface for both drivers, and batches the calls of one step: calls
 * that arrive while a statement is in flight share the next one.
 */
import { isNevertwiceError, NevertwiceError } from "../../core/errors.ts";
import { type CallBatch, createBatch } from "../batch.ts";
import type { SharingRules } from "../call-sharing.ts";
import type { QuickStatements, StepStatements } from "../postgres-sql.ts";
import {
  allCancelled,
  cancelledError,
  isPgPool,
  type PgPool,
  type PgPoolClient,
  type PostgresClient,
  type PostgresRow,
  type PostgresRunner,
  type RunStatement,
  type Statement,
} from "./client.ts";
import { isCollision, toStoreError } from "./errors.ts";
import { createPgDriver } from "./pg-driver.ts";
import { createPostgresJsDriver } from "./postgres-js-driver.ts";
import type { QuickFormat } from "./quick-steps.ts";
import type { StepAnswers, StepFormat } from "./steps.ts";

/** `isPrepared`: give the statements names, so that a connection plans each of them once. */
export function createRunner(client: PostgresClient, isPrepared: boolean): PostgresRunner {
  const driver = isPgPool(client)
    ? createPgDriver(client, isPrepared)
    : createPostgresJsDriver(client, isPrepared);
  const { run, transact, cancelsBlindly } = driver;
  return {
    forsake: () => driver.forsake?.(),
    run: (statement, parameters, isCancelled) => translateErrors(run(statement, parameters, isCancelled)),
    runReadCommitted: (statement, parameters, isCancelled) =>
      translateErrors(transact((runInside) => runInside(statement, parameters), { isCancelled })),
    transact: (work, limits) => translateErrors(transact(work, limits)),
    cancelsBlindly,
    // postgres.js does not report how many connections it has.
    hasNoConnection: () => isPgPool(client) && client.totalCount === 0,
  };
}

async function translateErrors<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw toStoreError(error);
  }
}

/** The event of a `pg` Pool for each new connection. */
interface PoolConnections {
  on?(event: "connect", listener: (connection: PgPoolClient) => void): unknown;
  off?(event: "connect", listener: (connection: PgPoolClient) => void): unknown;
}

function ignore(): void {}

interface PoolListeners {
  readonly listeners: Set<() => void>;
  stop(): void;
}

/** One `error` listener for each pool, however many stores share it. */
const poolListeners = new WeakMap<PgPool, PoolListeners>();

/**
 * Calls `onLost` when the pool lost an idle connection; the next one may lead to another server. The returned function stops
 * listening. A `pg` Pool reports this as an `error` event, which would end the process if it had no listener.
 */
export function listenToPool(client: PostgresClient, onLost: () => void): () => void {
  if (!isPgPool(client)) return () => {};
  const { listeners, stop } = poolListeners.get(client) ?? startListening(client);
  // A new function for each call, so that the same `onLost` may be added twice and removed once.
  const listener = () => onLost();
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) stop();
  };
}

function startListening(pool: PgPool): PoolListeners {
  const listeners = new Set<() => void>();
  const onError = () => {
    for (const listener of [...listeners]) listener();
  };
  pool.on?.("error", onError);
  // A pool does not listen to its connections while they are in use. Code that takes one from the same pool, such as a query
  // builder, may not listen either, and then the loss of the connection would end the process.
  const onConnect = (connection: PgPoolClient) => void connection.on("error", ignore);
  const connections = pool as unknown as PoolConnections;
  connections.on?.("connect", onConnect);
  const started = {
    listeners,
    stop() {
      pool.off?.("error", onError);
      connections.off?.("connect", onConnect);
      poolListeners.delete(pool);
    },
  };
  poolListeners.set(pool, started);
  return started;
}

/** Enough calls to share a commit. With more of them, all callers would wait for one another. */
const MAX_CALLS = 32;
const MAX_BYTES = 1_048_576;
/** While one statement commits, the next ones are on their way. */
const MAX_FLIGHTS = 3;
/** Each write in flight has a connection of the pool, which has ten by default: larger writes, and few more of them. */
const FAR = { maxCalls: 128, maxFlights: 4 };
/** How often a single call runs that collides with other statements, before it fails. */
const MAX_TRIES = 5;

interface StepBatchOptions<Call, Answer> extends StepFormat<Call, Answer> {
  readonly step: StepStatements;
  /** The statements for a batch whose calls may all be lost in a crash of the server. */
  readonly unflushed?: StepStatements;
  /** Called with the ids of the records that were settled and that other callers wait for. */
  readonly onSettled?: (ids: readonly string[]) => void;
}

/** Takes the place of the answer of a call whose caller has cancelled: it is neither sent nor repeated. */
const CANCELLED = Symbol("cancelled");

/** Batches the calls of one step. */
export function createStepBatch<
  Call extends {
    readonly id: string;
    readonly signal?: AbortSignal | undefined;
    readonly mayBeLost?: boolean | undefined;
  },
  Answer,
>(run: RunStatement, options: StepBatchOptions<Call, Answer>): CallBatch<Call, Answer> {
  const { step, unflushed, toParameters, toAnswers, toAwaited, sizeOf, idOf, turnOf, onSettled } = options;
  type Result = Answer | NevertwiceError | typeof CANCELLED;
  const sharing: SharingRules<Call, Result> | undefined = options.sharing && {
    ...options.sharing,
    answerTo(call, sent, result) {
      const isAnswer = result !== CANCELLED && !isNevertwiceError(result);
      return isAnswer ? options.sharing?.answerTo(call, sent, result as Answer) : undefined;
    },
  };

  async function ask(statement: Statement, calls: readonly Call[]): Promise<StepAnswers<Answer>> {
    const rows = await run(statement, toParameters(calls), allCancelled(calls));
    if (toAwaited !== undefined) onSettled?.(toAwaited(calls, rows));
    return toAnswers(calls, rows);
  }

  async function send(form: "together" | "alone", calls: readonly Call[]): Promise<StepAnswers<Answer>> {
    const mayBeLost = unflushed !== undefined && calls.every((call) => call.mayBeLost === true);
    const { quick, [form]: full } = mayBeLost ? unflushed : step;
    return quick === undefined || options.quick === undefined
      ? ask(full, calls)
      : sendQuick(quick, options.quick, full, calls);
  }

  /** The calls that the small statement cannot take, or leaves open, go to the full one: a second trip. */
  async function sendQuick(
    quick: QuickStatements,
    format: QuickFormat<Call, Answer>,
    full: Statement,
    calls: readonly Call[],
  ): Promise<StepAnswers<Answer>> {
    const asked = new Map<string, Call>();
    for (const call of calls) if (!asked.has(call.id) && format.isQuick(call)) asked.set(call.id, call);
    if (asked.size === 0) return ask(full, calls);
    const sent = asked.size === calls.length ? calls : [...asked.values()];
    const rows = await runQuick(quick, format, sent);
    if (format.toAwaited !== undefined) onSettled?.(format.toAwaited(sent, rows));
    const answers = format.toAnswers(calls, sent, rows);
    if (!answers.includes(undefined)) return answers;
    const open = calls.filter((_, index) => answers[index] === undefined);
    const others = (await ask(full, open)).values();
    return answers.map((answer) => answer ?? others.next().value);
  }

  function runQuick(
    { together, one }: QuickStatements,
    format: QuickFormat<Call, Answer>,
    calls: readonly Call[],
  ): Promise<readonly PostgresRow[]> {
    const [only] = calls;
    const isCancelled = allCancelled(calls);
    return only !== undefined && calls.length === 1
      ? run(one, format.toParametersOfOne(only), isCancelled)
      : run(together, format.toParameters(calls), isCancelled);
  }

  async function sendAlone(call: Call): Promise<Result> {
    const isCancelled = allCancelled([call]);
    return untilAnswered(async () => {
      if (isCancelled()) return CANCELLED;
      return (await send("alone", [call]))[0];
    });
  }

  async function sendTogether(calls: readonly Call[]): Promise<readonly (Result | undefined)[]> {
    const current = calls.filter(({ signal }) => !signal?.aborted);
    if (current.length < calls.length) {
      const answers = current.length === 0 ? [] : await sendTogether(current);
      return calls.map((call) => (current.includes(call) ? answers[current.indexOf(call)] : CANCELLED));
    }
    const [only] = calls;
    if (only !== undefined && calls.length === 1) return [await sendAlone(only)];
    try {
      return await send("together", calls);
    } catch (error) {
      // Every caller cancelled. The batch would repeat the calls one by one, and each would wait as long again.
      if (allCancelled(calls)()) return calls.map(() => CANCELLED);
      throw error;
    }
  }

  const batch = createBatch<Call, Result>({
    send: sendTogether,
    alone: sendAlone,
    idOf,
    turnOf,
    sizeOf,
    sharing,
    maxCalls: MAX_CALLS,
    maxBytes: MAX_BYTES,
    maxFlights: MAX_FLIGHTS,
    far: FAR,
  });

  return {
    async run(call) {
      const result = await batch.run(call);
      if (result === CANCELLED) throw cancelledError();
      if (isNevertwiceError(result)) throw result;
      return result as Answer;
    },
  };
}

/** Repeats a call, a few times, while it gets no answer because other statements work on its record. */
export async function untilAnswered<Answer>(call: () => Promise<Answer | undefined>): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    try {
      const answer = await call();
      if (answer !== undefined) return answer;
    } catch (error) {
      if (!isCollision(error) || tries >= MAX_TRIES) throw error;
    }
    // one-owner: a lost race is never answered as new.
    if (tries >= MAX_TRIES)
      throw new NevertwiceError(
        "unavailable",
        `Postgres: the record changed during each of ${MAX_TRIES} tries.`,
      );
  }
}
