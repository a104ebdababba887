/**
 * Group commit: calls that arrive while a write is in flight share the next one, and an idle store adds no delay. If a batch
 * fails for any reason, its calls are repeated one by one, so that each caller gets only its own error.
 */
import { NevertwiceError } from "../core/errors.ts";

export interface CallBatchOptions<Call, Answer> {
  /**
   * Sends several calls as one write; answers in their order. Undefined: the call was not carried out; repeat it. A promise:
   * its caller gets what it settles to, and no other call waits for it.
   */
  send(calls: readonly Call[]): Promise<readonly (Answer | PromiseLike<Answer> | undefined)[]>;
  /** Sends one call alone, and waits as long as its record is locked. */
  alone(call: Call): Promise<Answer>;
  /** Calls with the same id never share a write; the later one is sent when the earlier one is answered. */
  readonly idOf?: ((call: Call) => string) | undefined;
  /** Urgent calls are sent first. */
  readonly isUrgent?: ((call: Call) => boolean) | undefined;
  /** About how many bytes a call adds to a write. */
  readonly sizeOf?: ((call: Call) => number) | undefined;
  readonly maxCalls: number;
  readonly maxBytes?: number | undefined;
  /** How many writes may be in flight at once; default 1. */
  readonly maxFlights?: number | undefined;
  /** A write that takes longer no longer delays the others, since its connection may be dead; default 1,000. */
  readonly stuckMs?: number | undefined;
  /**
   * After several calls were answered together, the next write waits until this function calls back. The callers that were
   * just answered often have a next call, which then shares that write. Default: it does not wait.
   */
  readonly gather?: ((send: () => void) => void) | undefined;
  /** A call that has been queued for longer is not sent and fails; default: no limit. */
  readonly maxQueuedMs?: number | undefined;
}

export interface CallBatch<Call, Answer> {
  run(call: Call): Promise<Answer>;
}

const STUCK_MS = 1_000;
/** How often a call is sent in a batch before it is sent alone. */
const BATCH_TRIES = 3;

interface QueuedCall<Call, Answer> {
  readonly call: Call;
  /** The id whose other calls wait for this one; undefined once they no longer do. */
  id: string | undefined;
  readonly isUrgent: boolean;
  readonly bytes: number;
  /** 0 if calls may be queued for any time: reading the clock costs as much as queueing. */
  readonly queuedAt: number;
  readonly resolve: (answer: Answer | PromiseLike<Answer>) => void;
  readonly reject: (error: unknown) => void;
  tries: number;
}

function overdueError(): NevertwiceError {
  return new NevertwiceError("unavailable", "the call waited too long behind other calls.");
}

export function createBatch<Call, Answer>(options: CallBatchOptions<Call, Answer>): CallBatch<Call, Answer> {
  const { idOf, isUrgent, sizeOf, maxCalls, maxBytes = Number.POSITIVE_INFINITY, maxFlights = 1 } = options;
  const { stuckMs = STUCK_MS, maxQueuedMs = Number.POSITIVE_INFINITY, gather = queueMicrotask } = options;
  type Entry = QueuedCall<Call, Answer>;
  const mayBeOverdue = maxQueuedMs < Number.POSITIVE_INFINITY;
  let urgent: Entry[] = [];
  let normal: Entry[] = [];
  /** The ids that are queued or in flight, each with its later calls. */
  const laterCalls = new Map<string, Entry[]>();
  let flights = 0;
  let isScheduled = false;

  function enqueue(entry: Entry): void {
    (entry.isUrgent ? urgent : normal).push(entry);
  }

  /** Runs once for all calls that come until `after` calls back: by default those of this turn of the event loop. */
  function schedule(after: (send: () => void) => void = queueMicrotask): void {
    if (isScheduled || flights >= maxFlights) return;
    isScheduled = true;
    after(() => {
      isScheduled = false;
      while (flights < maxFlights && urgent.length + normal.length > 0) void sendBatch(take());
    });
  }

  /** Rejects calls that were queued too long. Each queue is in the order of arrival. */
  function dropOverdue(): void {
    const since = performance.now() - maxQueuedMs;
    for (const queue of [urgent, normal]) {
      const waiting = queue.findIndex(({ queuedAt }) => queuedAt >= since);
      for (const entry of queue.splice(0, waiting === -1 ? queue.length : waiting)) {
        entry.reject(overdueError());
        release(entry);
      }
    }
  }

  function take(): Entry[] {
    if (mayBeOverdue) dropOverdue();
    const queue = urgent.length === 0 ? normal : urgent.length >= maxCalls ? urgent : [...urgent, ...normal];
    let count = 0;
    let total = 0;
    for (const { bytes } of queue) {
      total += bytes;
      if (count === maxCalls || (count > 0 && total > maxBytes)) break;
      count++;
    }
    const fromUrgent = Math.min(count, urgent.length);
    const taken = [...urgent.slice(0, fromUrgent), ...normal.slice(0, count - fromUrgent)];
    urgent = urgent.slice(fromUrgent);
    normal = normal.slice(count - fromUrgent);
    return taken;
  }

  async function sendBatch(entries: readonly Entry[]): Promise<void> {
    flights++;
    let isInFlight = true;
    const land = () => {
      if (!isInFlight) return;
      isInFlight = false;
      flights--;
      schedule(entries.length > 1 ? gather : queueMicrotask);
    };
    const stuck = Number.isFinite(stuckMs)
      ? setTimeout(() => {
          land();
          for (const entry of entries) release(entry);
        }, stuckMs)
      : undefined;
    stuck?.unref?.();
    await Promise.all(await send(entries));
    clearTimeout(stuck);
    land();
  }

  /** Returns the calls that are still to be answered, because they are sent alone. */
  async function send(entries: readonly Entry[]): Promise<Promise<void>[]> {
    try {
      const answers = await options.send(entries.map(({ call }) => call));
      const unanswered: Promise<void>[] = [];
      for (const [index, entry] of entries.entries()) {
        const answer = answers[index];
        if (answer !== undefined) {
          entry.resolve(answer);
          release(entry);
        } else if (++entry.tries >= BATCH_TRIES) {
          unanswered.push(alone(entry));
        } else {
          enqueue(entry);
          // The end of this write schedules the next one only if it did not count as stuck.
          schedule();
        }
      }
      return unanswered;
    } catch (error) {
      const [only] = entries;
      if (only === undefined || entries.length > 1) return entries.map(alone);
      only.reject(error);
      release(only);
      return [];
    }
  }

  async function alone(entry: Entry): Promise<void> {
    try {
      entry.resolve(await options.alone(entry.call));
    } catch (error) {
      entry.reject(error);
    }
    release(entry);
  }

  /** Queues the next call with the same id. */
  function release(entry: Entry): void {
    const { id } = entry;
    if (id === undefined) return;
    entry.id = undefined;
    const next = laterCalls.get(id)?.shift();
    if (next === undefined) laterCalls.delete(id);
    else {
      enqueue(next);
      schedule();
    }
  }

  return {
    run(call) {
      return new Promise((resolve, reject) => {
        const id = idOf?.(call);
        const entry: Entry = {
          call,
          id,
          // Evaluated here, so that if one of these throws, only its own call fails.
          isUrgent: isUrgent?.(call) ?? false,
          bytes: sizeOf?.(call) ?? 0,
          queuedAt: mayBeOverdue ? performance.now() : 0,
          resolve,
          reject,
          tries: 0,
        };
        const earlier = id === undefined ? undefined : laterCalls.get(id);
        if (earlier !== undefined) return void earlier.push(entry);
        if (id !== undefined) laterCalls.set(id, []);
        enqueue(entry);
        schedule();
      });
    },
  };
}
