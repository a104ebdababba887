/**
 * Sends the writes of records, and reads of one. Those that are due at the same time share one request: an outer transaction without a
 * condition, in which each write is a transaction with its own comparison. So each of them succeeds or is overtaken alone,
 * and etcd flushes its log once for all of them.
 */
import { isNevertwiceError } from "../../core/errors.ts";
import { createBatch } from "../batch.ts";
import { toStoreError } from "./errors.ts";
import type { EtcdGateway } from "./gateway.ts";
import * as tx from "./transactions.ts";

/** A conditional write of one record, or a read. */
export interface ConditionalWrite {
  readonly id: string;
  readonly transaction: tx.Transaction;
  /** About how many characters it adds to a request. */
  readonly size: number;
  readonly signal?: AbortSignal | undefined;
  /** It writes nothing. A read goes the same way, so that its answer does not overtake that of a write which it has seen. */
  readonly isRead?: boolean;
}

export interface ConditionalWriteReply {
  readonly hasSucceeded: boolean;
  /** The revision of the store; if the transaction wrote, that of its writes. */
  readonly revision: string;
  /** What the read found that follows a failed comparison. */
  readonly found: readonly tx.KeyValue[];
  /** An earlier try got no clear answer, so this write may have been applied before it was answered. */
  readonly mayBeRepeat: boolean;
}

interface SentWrite extends ConditionalWrite {
  /** Unlike any other of the same moment, because a transaction may not write a key twice. */
  readonly turn: string;
  /** A request with this write got no clear answer. */
  mayBeRepeat: boolean;
}

/** etcd allows 128 operations in a transaction, nested ones included, and each record may take a megabyte of the answer. */
const MAX_WRITES = 32;
/** etcd accepts requests of 1,572,864 bytes by default, and a character may take three. */
const MAX_SIZE = 262_144;
/** While one request is flushed to the disks, another one is on its way. */
const MAX_FLIGHTS = 2;
const FAR = { maxCalls: MAX_WRITES, maxFlights: 16 };
/** A request to a member that has lost its leader must not delay the others, which may go to another member. */
const STUCK_MS = 250;

export function createSharedWrites(
  gateway: EtcdGateway,
): (write: ConditionalWrite) => Promise<ConditionalWriteReply> {
  async function sendAll(writes: readonly SentWrite[]): Promise<ConditionalWriteReply[]> {
    const [first] = writes;
    const isAlone = writes.length === 1 && first !== undefined;
    const request = isAlone
      ? tx.transaction(first.transaction)
      : tx.transaction({ onSuccess: writes.map(({ transaction }) => tx.nested(transaction)) });
    const { end, signal } = signalOfAll(writes);
    try {
      const { body, mayBeRepeat } = await gateway.call("kv/txn", request, signal);
      const answer = tx.readAnswer(body);
      const { revision } = answer;
      const answers = isAlone ? [answer] : answer.nested;
      return writes.map((write, index) => {
        const { hasSucceeded = false, found = [] } = answers[index] ?? {};
        return {
          hasSucceeded,
          revision,
          found: found[0] ?? [],
          mayBeRepeat: mayBeRepeat || write.mayBeRepeat,
        };
      });
    } catch (error) {
      for (const write of writes) write.mayBeRepeat = true;
      throw error;
    } finally {
      end();
    }
  }

  async function send(
    writes: readonly SentWrite[],
  ): Promise<readonly (ConditionalWriteReply | Promise<ConditionalWriteReply>)[]> {
    // Cancelled while they were queued: their callers have their error already.
    const due = writes.filter(({ signal }) => signal?.aborted !== true);
    try {
      const replies = due.length === 0 ? [] : await sendAll(due);
      return writes.map((write) => replies[due.indexOf(write)] ?? Promise.reject(cancelledError(write)));
    } catch (error) {
      // A cluster that cannot be reached fails all writes. Any other error may concern one of them: send them one by one.
      if (isNevertwiceError(error) && error.code === "unavailable")
        return writes.map(() => Promise.reject(error));
      throw error;
    }
  }

  const batch = createBatch<SentWrite, ConditionalWriteReply>({
    send,
    alone: async (write) => (await send([write]))[0] as ConditionalWriteReply,
    idOf: ({ turn }) => turn,
    sizeOf: ({ size }) => size,
    maxCalls: MAX_WRITES,
    maxBytes: MAX_SIZE,
    maxFlights: MAX_FLIGHTS,
    far: FAR,
    stuckMs: STUCK_MS,
  });

  let reads = 0;

  return (write) => {
    const turn = write.isRead ? `read ${++reads}` : `write ${write.id}`;
    const sent = { ...write, turn, mayBeRepeat: false };
    return write.signal === undefined ? batch.run(sent) : untilCancelled(batch.run(sent), sent);
  };
}

const cancelledError = ({ signal }: ConditionalWrite): unknown => toStoreError(signal?.reason);

/** The caller gets its error when it cancels, although the request goes on for the others. */
function untilCancelled<T>(reply: Promise<T>, write: ConditionalWrite): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = () => reject(cancelledError(write));
    if (write.signal?.aborted) cancel();
    write.signal?.addEventListener("abort", cancel, { once: true });
    reply.then(resolve, reject).finally(() => write.signal?.removeEventListener("abort", cancel));
  });
}

/** A signal that fires when every caller has cancelled; none if one of them cannot. */
function signalOfAll(writes: readonly ConditionalWrite[]): { readonly signal?: AbortSignal; end(): void } {
  const signals = writes.flatMap(({ signal }) => signal ?? []);
  const [only] = signals;
  if (only === undefined || signals.length < writes.length) return { end: () => {} };
  if (signals.length === 1) return { signal: only, end: () => {} };
  const controller = new AbortController();
  const cancel = () => {
    const running = signals.find(({ aborted }) => !aborted);
    if (running === undefined) controller.abort(only.reason);
  };
  for (const signal of signals) signal.addEventListener("abort", cancel, { once: true });
  return {
    signal: controller.signal,
    end() {
      for (const signal of signals) signal.removeEventListener("abort", cancel);
    },
  };
}
