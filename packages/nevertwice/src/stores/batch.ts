/**
 * Group commit: calls that arrive while a write is in flight share the next one, and an idle store adds no delay. If a batch
 * fails for any reason, its calls are repeated one by one, so that each caller gets only its own error.
 */
import { canShareAcrossCalls } from "#platform";
import { NevertwiceError } from "../core/errors.ts";
import { createCallQueue, type Queueable } from "./call-queue.ts";
import { createSharing, type SharedCall, type SharingRules, type WaitingCaller } from "./call-sharing.ts";
import { createRoom, type FlightRoom } from "./flight-room.ts";

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
  /** Given if calls that mean the same are sent as one. */
  readonly sharing?: SharingRules<Call, Answer> | undefined;
  /** Whose call it is. Calls that are not urgent are taken from each in turn; default: all are of one. */
  readonly turnOf?: ((call: Call) => string) | undefined;
  /** About how many bytes a call adds to a write. */
  readonly sizeOf?: ((call: Call) => number) | undefined;
  readonly maxCalls: number;
  readonly maxBytes?: number | undefined;
  /** How many writes may be in flight at once; default 1. */
  readonly maxFlights?: number | undefined;
  /** The limits while every write takes long, as on a store that is far away; default: the same. */
  readonly far?: FlightRoom | undefined;
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

interface QueuedCall<Call, Answer> extends SharedCall<Call, Answer>, Queueable<QueuedCall<Call, Answer>> {
  /** The id whose other calls wait for this one; undefined once they no longer do. */
  id: string | undefined;
  readonly bytes: number;
  /** 0 if calls may be queued for any time: reading the clock costs as much as queueing. */
  readonly queuedAt: number;
  tries: number;
}

function overdueError(): NevertwiceError {
  return new NevertwiceError("unavailable", "the call waited too long behind other calls.");
}

function leftError(): NevertwiceError {
  return new NevertwiceError("unavailable", "the call was not sent before its caller cancelled it.");
}

export function createBatch<Call, Answer>(options: CallBatchOptions<Call, Answer>): CallBatch<Call, Answer> {
  // A write that several calls wait for belongs to one of them.
  if (!canShareAcrossCalls) return { run: (call) => options.alone(call) };
  const { idOf, isUrgent, turnOf, sizeOf, maxCalls, maxFlights = 1 } = options;
  const { maxBytes = Number.POSITIVE_INFINITY } = options;
  const { stuckMs = STUCK_MS, maxQueuedMs = Number.POSITIVE_INFINITY, gather = queueMicrotask } = options;
  type Entry = QueuedCall<Call, Answer>;
  const mayBeOverdue = maxQueuedMs < Number.POSITIVE_INFINITY;
  const room = createRoom({ maxCalls, maxFlights }, options.far);
  const queue = createCallQueue<Entry>();
  /** The ids that are queued or in flight, each with its later calls. */
  const laterCalls = new Map<string, Entry[]>();
  const sharing = options.sharing && createSharing(options.sharing, leftError);
  let flights = 0;
  let isScheduled = false;

  /** Runs once for all calls that come until `after` calls back: by default those of this turn of the event loop. */
  function schedule(after: (send: () => void) => void = queueMicrotask): void {
    if (isScheduled || callsForNext() === 0) return;
    isScheduled = true;
    after(() => {
      isScheduled = false;
      for (let most = callsForNext(); most > 0 && queue.length > 0; most = callsForNext()) {
        const entries = take(most);
        if (entries.length > 0) void sendBatch(entries);
      }
    });
  }

  const callsForNext = () => room.callsFor(queue.length, flights);

  function take(most: number): Entry[] {
    const since = mayBeOverdue ? performance.now() - maxQueuedMs : 0;
    const taken: Entry[] = [];
    let total = 0;
    for (let entry = queue.first(); entry !== undefined && taken.length < most; entry = queue.first()) {
      const isOverdue = entry.queuedAt < since;
      if (!isOverdue) total += entry.bytes;
      if (taken.length > 0 && total > maxBytes) break;
      queue.take();
      if (isOverdue) drop(entry);
      else taken.push(entry);
    }
    return taken;
  }

  function drop(entry: Entry): void {
    sharing?.close(entry);
    fail(entry, overdueError());
  }

  async function sendBatch(entries: readonly Entry[]): Promise<void> {
    flights++;
    const sentAt = performance.now();
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
    const unanswered = await send(entries);
    room.landed(performance.now() - sentAt);
    await Promise.all(unanswered);
    clearTimeout(stuck);
    land();
  }

  /** Returns the calls that are still to be answered, because they are sent alone. */
  async function send(entries: readonly Entry[]): Promise<Promise<void>[]> {
    try {
      const answers = await options.send(entries.map(callToSend));
      const unanswered: Promise<void>[] = [];
      for (const [index, entry] of entries.entries()) {
        const answer = answers[index];
        if (answer !== undefined) {
          succeed(entry, answer);
        } else if (++entry.tries >= BATCH_TRIES) {
          unanswered.push(alone(entry));
        } else {
          queue.add(entry);
          // The end of this write schedules the next one only if it did not count as stuck.
          schedule();
        }
      }
      return unanswered;
    } catch (error) {
      const [only] = entries;
      if (only === undefined || entries.length > 1) return entries.map(alone);
      fail(only, error);
      return [];
    }
  }

  const callToSend = (entry: Entry): Call => sharing?.close(entry) ?? entry.caller.call;

  async function alone(entry: Entry): Promise<void> {
    try {
      succeed(entry, await options.alone(callToSend(entry)));
    } catch (error) {
      fail(entry, error);
    }
  }

  function succeed(entry: Entry, answer: Answer | PromiseLike<Answer>): void {
    entry.caller.resolve(answer);
    if (entry.others !== undefined) void answerOthers(entry, answer);
    release(entry);
  }

  function fail(entry: Entry, error: unknown): void {
    entry.caller.reject(error);
    if (entry.others !== undefined) void answerOthers(entry, Promise.reject(error));
    release(entry);
  }

  /** Those that cannot be answered are queued, each for itself. */
  async function answerOthers(entry: Entry, answer: Answer | PromiseLike<Answer>): Promise<void> {
    const others = (await sharing?.answerOthers(entry, answer)) ?? [];
    for (const other of others) admit(toEntry(other));
  }

  function toEntry(caller: WaitingCaller<Call, Answer>): Entry {
    const { call } = caller;
    return {
      caller,
      others: undefined,
      id: idOf?.(call),
      isUrgent: isUrgent?.(call) ?? false,
      turn: turnOf?.(call) ?? "",
      next: undefined,
      bytes: sizeOf?.(call) ?? 0,
      queuedAt: mayBeOverdue ? performance.now() : 0,
      tries: 0,
    };
  }

  function admit(entry: Entry): void {
    const { id } = entry;
    const earlier = id === undefined ? undefined : laterCalls.get(id);
    if (earlier !== undefined) return void earlier.push(entry);
    if (id !== undefined) laterCalls.set(id, []);
    queue.add(entry);
    schedule();
  }

  /** Queues the next call with the same id. */
  function release(entry: Entry): void {
    const { id } = entry;
    if (id === undefined) return;
    entry.id = undefined;
    const next = laterCalls.get(id)?.shift();
    if (next === undefined) laterCalls.delete(id);
    else {
      queue.add(next);
      schedule();
    }
  }

  return {
    run(call) {
      return new Promise((resolve, reject) => {
        const caller = { call, resolve, reject };
        if (sharing?.joins(caller)) return;
        // Evaluated here, so that if one of its functions throws, only its own call fails.
        const entry = toEntry(caller);
        admit(entry);
        sharing?.open(entry);
      });
    },
  };
}
