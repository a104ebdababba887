/**
 * Answers replays in the caller's thread, without a message to the worker: a second connection to the worker's file that
 * can only read. It answers claims of completed records. Everything else, and every error, is left to the worker.
 *
 * Reading blocks the event loop, so what it may cost is limited: it looks only while replays are frequent, for a limited time
 * in each turn of the event loop, and not at large outcomes.
 */
import { isMainThread } from "node:worker_threads";
import { systemClock } from "../../core/clock.ts";
import { claimRecord } from "../../core/record.ts";
import type { ClaimAnswer, ClaimRequest } from "../../core/store.ts";
import * as sql from "../sqlite-sql.ts";
import type { FileSettings, OwnDatabase } from "./client.ts";
import { openReadOnly } from "./driver.ts";
import { fileIdentity, type OpenedFile } from "./opened-file.ts";
import { createReadHold, type ReadHold } from "./read-hold.ts";
import type { StoredRow } from "./record-row.ts";
import { prepareFind } from "./records.ts";
import { createReplayRate } from "./replay-rate.ts";

/** The worker sends a larger outcome once to all callers that wait for it; here each of them would get a copy. */
const MAX_OUTCOME_BYTES = 65_536;
/**
 * In one turn of the event loop: about 2 ms of reading, if the disk need not be read. As many more claims wait for the next
 * turn, and all others go to the worker.
 */
const MAX_TURN_READS = 256;
/** If the disk must be read. A single read can take longer. */
const MAX_TURN_MS = 10;
/** A read that took longer has probably waited for the disk, which the worker does without blocking the event loop. */
const SLOW_READ_MS = 1;

export interface ReplayReader {
  /** The answer, if the record is completed and this claim is a replay of it. Undefined: call `claim`. */
  claimNow(request: ClaimRequest): ReplayAnswer;
  /** Like `claimNow`, but it may wait for the next turn of the event loop. Undefined: ask the worker. */
  claim(request: ClaimRequest): ReplayAnswer | Promise<ReplayAnswer>;
  /** Tells how the worker answered a claim: whether it was a replay. */
  learn(isReplay: boolean): void;
  /** The worker has opened the file, so it exists, is in WAL mode, and has this version's tables. */
  allow(file: OpenedFile): void;
  /** No worker has the file open now. Must be called before the worker closes: the last connection removes the log. */
  close(): void;
}

export type ReplayAnswer = ClaimAnswer | undefined;

interface Connection {
  readonly identity: string;
  find(id: string): StoredRow | undefined;
  close(): void;
}

/** What the reads of one turn of the event loop share. */
interface Turn {
  readonly isSameFile: boolean;
  readonly ended: Promise<void>;
  reads: number;
  waiting: number;
  spentMs: number;
}

interface NextRead {
  readonly from: Connection;
  readonly now: Turn;
}

function isUsedUp({ reads, spentMs }: Turn): boolean {
  return reads >= MAX_TURN_READS || spentMs >= MAX_TURN_MS;
}

export function createReplayReader({ file, exclusive }: FileSettings): ReplayReader {
  const rate = createReplayRate();
  let opened: OpenedFile | undefined;
  let hasTried = false;
  let connection: Connection | undefined;
  let turn: Turn | undefined;
  /** The id that `claimNow` has just looked for in vain: `claim` need not look for it again. */
  let missedId: string | undefined;

  /** Begins to open the file. A failure is final until another worker opens it: the worker answers all claims. */
  function open(): undefined {
    const wanted = opened;
    if (hasTried || wanted?.driver === undefined) return;
    hasTried = true;
    connect(wanted.driver, file, wanted.identity).then(
      (created) => {
        if (opened === wanted) connection = created;
        else created.close();
      },
      () => {},
    );
  }

  /** The worker checks the file once for each message, which carries the claims of one turn. */
  function currentTurn({ identity }: Connection): Turn {
    turn ??= {
      isSameFile: fileIdentity(file) === identity,
      ended: new Promise((resolve) => {
        setImmediate(() => {
          turn = undefined;
          resolve();
        });
      }),
      reads: 0,
      waiting: 0,
      spentMs: 0,
    };
    return turn;
  }

  /** The connection for the next look, and the turn that the look belongs to. Undefined while claims are not looked up. */
  function beginLook(): NextRead | undefined {
    if (!rate.isHigh()) return undefined;
    if (connection === undefined) return open();
    const now = currentTurn(connection);
    return now.isSameFile ? { from: connection, now } : undefined;
  }

  function claimNow(request: ClaimRequest): ReplayAnswer {
    const next = beginLook();
    if (next === undefined || isUsedUp(next.now)) return undefined;
    const answer = look(next, request);
    if (answer === undefined) missedId = request.id;
    return answer;
  }

  function claim(request: ClaimRequest): ReplayAnswer | Promise<ReplayAnswer> {
    if (request.id === missedId) {
      missedId = undefined;
      return undefined;
    }
    const next = beginLook();
    if (next === undefined) return undefined;
    if (!isUsedUp(next.now)) return look(next, request);
    return next.now.waiting++ < MAX_TURN_READS ? next.now.ended.then(() => claim(request)) : undefined;
  }

  function look({ from, now }: NextRead, request: ClaimRequest): ReplayAnswer {
    now.reads++;
    const startedAt = performance.now();
    const answer = read(from, request);
    const tookMs = performance.now() - startedAt;
    now.spentMs += tookMs;
    if (tookMs > SLOW_READ_MS) rate.add(false);
    else if (answer !== undefined) rate.add(true);
    return answer;
  }

  return {
    claimNow,
    claim,
    learn: rate.add,
    allow(worker) {
      // A native driver that is torn down inside a call aborts the process, and a process can exit while a thread reads.
      if (exclusive || !isMainThread) return;
      opened = worker;
      hasTried = false;
    },
    close() {
      opened = undefined;
      const closed = connection;
      connection = undefined;
      try {
        closed?.close();
      } catch {
        // The worker must still be closed. Only the log stays on disk, and the next process that opens the file uses it.
      }
    },
  };
}

/** Opens the file and checks that it is the one with this identity. */
async function connect(driver: string, file: string, identity: string): Promise<Connection> {
  const database = await openReadOnly(driver, file);
  let holding: OwnDatabase | undefined;
  let hold: ReadHold | undefined;
  const close = () => {
    hold?.release();
    holding?.close();
    database.close();
  };
  try {
    holding = await openReadOnly(driver, file);
    // While another connection keeps the file locked, the worker waits for it. This thread must not.
    for (const each of [database, holding]) each.exec("PRAGMA busy_timeout = 0");
    const find = prepareFind(database, sql.findCompleted(MAX_OUTCOME_BYTES));
    hold = createReadHold(holding, sql.LAST_FENCE);
    const { beforeRead } = hold;
    if (fileIdentity(file) !== identity) throw new Error("The path leads to another file now.");
    return {
      identity,
      find(id) {
        beforeRead();
        return find(id);
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

/**
 * Reads outside a transaction: the statement is reset as soon as it has its row, so it does not keep a checkpoint from
 * truncating the log. By the time before the read, as in the worker (call-runner.ts).
 */
function read({ find }: Connection, request: ClaimRequest): ReplayAnswer {
  const now = systemClock.now();
  try {
    const { answer } = claimRecord(find(request.id)?.kept, request, now, () => 1);
    return answer.status === "completed" ? answer : undefined;
  } catch {
    // A damaged record, a locked or a broken file. The worker reports it, or has a reason to wait.
    return undefined;
  }
}
