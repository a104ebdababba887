/**
 * Group commit: what arrives while a write is in flight goes together in the next one, and an idle store adds no delay.
 * A batch that fails, for whatever reason, is repeated call by call, so a caller sees only its own error.
 */

export interface BatchOptions<Call, Answer> {
  /** Sends several calls as one write; answers in their order. `undefined`: this one was not done, ask again. */
  send(calls: readonly Call[]): Promise<readonly (Answer | undefined)[]>;
  /** Does one call by itself, however long it has to wait for its row. */
  alone(call: Call): Promise<Answer>;
  /** Calls of one id never share a write; the later one goes when the earlier one is answered. */
  readonly idOf?: ((call: Call) => string) | undefined;
  /** These go before the others. */
  readonly isUrgent?: ((call: Call) => boolean) | undefined;
  /** Bytes that a call adds to a write, about. */
  readonly sizeOf?: ((call: Call) => number) | undefined;
  readonly maxCalls: number;
  readonly maxBytes?: number | undefined;
  /** How many writes may be under way at once; default 1. */
  readonly maxFlights?: number | undefined;
}

export interface Batch<Call, Answer> {
  run(call: Call): Promise<Answer>;
}

/** A write that takes longer than this no longer holds the others back: its connection may be dead. */
const STUCK_MS = 1_000;
/** How often a call is asked again in a batch before it is done alone. */
const BATCH_TRIES = 3;

interface Waiting<Call, Answer> {
  readonly call: Call;
  /** What it holds back; gone once it no longer does. */
  id: string | undefined;
  readonly isUrgent: boolean;
  readonly bytes: number;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
  tries: number;
}

export function createBatch<Call, Answer>(options: BatchOptions<Call, Answer>): Batch<Call, Answer> {
  const { idOf, isUrgent, sizeOf, maxCalls, maxBytes = Number.POSITIVE_INFINITY, maxFlights = 1 } = options;
  type Entry = Waiting<Call, Answer>;
  let urgent: Entry[] = [];
  let normal: Entry[] = [];
  /** The ids that are queued or in flight, each with the calls that come after it. */
  const behind = new Map<string, Entry[]>();
  let flights = 0;
  let isScheduled = false;

  function enqueue(entry: Entry): void {
    (entry.isUrgent ? urgent : normal).push(entry);
  }

  /** Once for all calls of this turn of the event loop. */
  function schedule(): void {
    if (isScheduled || flights >= maxFlights) return;
    isScheduled = true;
    queueMicrotask(() => {
      isScheduled = false;
      while (flights < maxFlights && urgent.length + normal.length > 0) void fly(take());
    });
  }

  function take(): Entry[] {
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

  async function fly(entries: readonly Entry[]): Promise<void> {
    flights++;
    let isHolding = true;
    const letGo = () => {
      if (!isHolding) return;
      isHolding = false;
      flights--;
      schedule();
    };
    const stuck = setTimeout(() => {
      letGo();
      for (const entry of entries) release(entry);
    }, STUCK_MS);
    stuck.unref?.();
    await Promise.all(await send(entries));
    clearTimeout(stuck);
    letGo();
  }

  /** Answers with what is left to do of the batch: the calls that go alone. */
  async function send(entries: readonly Entry[]): Promise<Promise<void>[]> {
    try {
      const answers = await options.send(entries.map(({ call }) => call));
      return entries.flatMap((entry, index) => {
        const answer = answers[index];
        if (answer !== undefined) return settle(entry, () => entry.resolve(answer)) ?? [];
        if (++entry.tries >= BATCH_TRIES) return alone(entry);
        enqueue(entry);
        return [];
      });
    } catch (error) {
      const [only] = entries;
      if (only !== undefined && entries.length === 1) return settle(only, () => only.reject(error)) ?? [];
      return entries.map(alone);
    }
  }

  async function alone(entry: Entry): Promise<void> {
    try {
      const answer = await options.alone(entry.call);
      settle(entry, () => entry.resolve(answer));
    } catch (error) {
      settle(entry, () => entry.reject(error));
    }
  }

  function settle(entry: Entry, tell: () => void): undefined {
    tell();
    release(entry);
  }

  /** The next call of its id may go. */
  function release(entry: Entry): void {
    const { id } = entry;
    if (id === undefined) return;
    entry.id = undefined;
    const next = behind.get(id)?.shift();
    if (next === undefined) behind.delete(id);
    else {
      enqueue(next);
      schedule();
    }
  }

  return {
    run(call) {
      return new Promise((resolve, reject) => {
        const id = idOf?.(call);
        // Asked here, so that a call that they cannot judge fails by itself.
        const judged = { isUrgent: isUrgent?.(call) ?? false, bytes: sizeOf?.(call) ?? 0 };
        const entry: Entry = { call, id, ...judged, resolve, reject, tries: 0 };
        const others = id === undefined ? undefined : behind.get(id);
        if (others !== undefined) return void others.push(entry);
        if (id !== undefined) behind.set(id, []);
        enqueue(entry);
        schedule();
      });
    },
  };
}
