/**
 * Takes messages out of the table and delivers them, at least once each. No transaction is open while a message is delivered:
 *
 *   claim (lease and token) ── deliver ── settle (by token): delete, plan the next attempt, or park
 *                                  └─ renew every third of the lease
 *
 * What can happen in between:
 *
 *   the process is killed after the delivery     the lease ends, and the message is delivered again with the same id
 *   the lease ends during the delivery           another relay delivers it too; the first relay's settle finds another token
 *                                                and changes nothing
 *   the server's clock goes forward              the same: leases end early
 *   the server's clock goes back                 leases and delays last longer; `repair` limits that to about an hour
 */
import { backoffMs, pause } from "../core/backoff.ts";
import { systemTimer as timer } from "../core/clock.ts";
import { randomToken } from "../core/token.ts";
import { type Content, errorText, type OutboxMessage } from "./message.ts";
import { createLooks } from "./relay-looks.ts";
import type { RelayEvent, RelaySettings } from "./relay-options.ts";
import { createSettlements, type HeldMessage, pauseMs } from "./relay-settlement.ts";
import type { ClaimedMessage, OutboxStore } from "./store.ts";
import { readVerdict } from "./verdict.ts";

/**
 * Delivers the messages of an outbox. Several relays share the work; a relay that dies is replaced after its
 * lease.
 */
export interface Relay {
  /** Starts to deliver. Calling it again changes nothing. A relay that was stopped cannot be started again. */
  start(): void;
  /**
   * Claims nothing more, waits up to `drainMs` for deliveries in flight, and gives back what it has not tried. Resolves when
   * the database knows how each delivery ended, or when it does not answer.
   */
  stop(): Promise<void>;
}

export interface RelayContext {
  readonly store: OutboxStore;
  readonly namespace: string;
  /** Opens what was stored for the message with this id. */
  open(id: string, content: string): Content;
  /** Whether bodies are sealed: then no text that may quote one is kept or reported. */
  readonly isSealed: boolean;
}

/** How often to look for deliveries that take too long. */
const LOOK_MS = 100;
const REPAIR_EVERY_MS = 60_000;
const DRAIN_LOOK_MS = 5;

export function createRelay(context: RelayContext, settings: RelaySettings): Relay {
  const { store, namespace, open, isSealed } = context;
  const { deliver, concurrency, batch, leaseMs, deliverMs, pollMs, maxAttempts, drainMs, retry } = settings;
  const queue: HeldMessage[] = [];
  const held = new Set<HeldMessage>();
  const running = new Set<HeldMessage>();
  const alarm = createAlarm();
  const settlements = createSettlements({ store, namespace, held, emit, onAdvanced: alarm.ring });
  const stops: (() => void)[] = [];
  const looks = createLooks(batch);
  let claiming: Promise<void> | undefined;
  let stopping: Promise<void> | undefined;

  function emit(event: RelayEvent): void {
    try {
      settings.onEvent?.(event);
    } catch {
      // An observer must not stop the relay.
    }
  }

  async function claimUntilStopped(): Promise<void> {
    let repairAt = 0;
    for (let failures = 0; stopping === undefined; ) {
      try {
        if (timer.now() >= repairAt) {
          await store.repair(namespace);
          repairAt = timer.now() + REPAIR_EVERY_MS;
        }
        const changed = queue.length < batch ? await claim() : 0;
        failures = 0;
        if (changed === 0) await alarm.wait(pollMs * (0.5 + Math.random()));
      } catch (cause) {
        emit({ kind: "unavailable", during: "claim", cause });
        await alarm.wait(pauseMs(failures++));
      }
    }
  }

  async function claim(): Promise<number> {
    const token = randomToken();
    const leaseEndsAt = timer.now() + leaseMs;
    const look = looks.next();
    const reply = await store.claim({ namespace, leaseMs, token, ...look });
    looks.note(reply, look);
    const { messages, changed } = reply;
    for (const claimed of messages) {
      const ending = { seq: claimed.seq, token };
      const taken = { claimed, ending, leaseEndsAt, startedAt: 0, isOver: false, abort: ignore };
      held.add(taken);
      queue.push(taken);
    }
    runQueue();
    return changed;
  }

  function runQueue(): void {
    const wasFull = queue.length >= batch;
    while (running.size < concurrency && queue.length > 0) {
      const next = queue.shift() as HeldMessage;
      if (stopping !== undefined) settlements.add(next, { kind: "released" });
      else if (timer.now() >= next.leaseEndsAt) lose(next);
      else void run(next);
    }
    if (wasFull && queue.length < batch) alarm.ring();
  }

  async function run(current: HeldMessage): Promise<void> {
    const { claimed } = current;
    running.add(current);
    current.startedAt = timer.now();
    try {
      // A message that ends the process on every attempt must not do so for ever.
      if (claimed.attempts > maxAttempts)
        park(current, `the relay ended during attempt ${claimed.attempts - 1}, and left no error`);
      else await attempt(current).then(() => succeed(current));
    } catch (error) {
      fail(current, error);
    }
    running.delete(current);
    runQueue();
    settlements.flush();
  }

  /** Calls the deliverer. A delivery that ignores its signal is no longer waited for. */
  function attempt(current: HeldMessage): Promise<unknown> {
    const { id, topic, key, createdAt, content, attempts } = current.claimed;
    const controller = new AbortController();
    return new Promise((resolve, reject) => {
      current.abort = (reason) => {
        controller.abort(reason);
        reject(reason);
      };
      const message: OutboxMessage = { id, topic, key, createdAt, ...open(id, content) };
      const answer = deliver(message, { signal: controller.signal, attempt: attempts });
      Promise.resolve(answer).then(resolve, reject);
    });
  }

  function succeed(current: HeldMessage): void {
    if (current.isOver) return;
    settlements.add(current, { kind: "delivered" });
    const tookMs = timer.now() - current.startedAt;
    emit({ ...aboutMessage(current.claimed), kind: "delivered", tookMs });
  }

  function fail(current: HeldMessage, thrown: unknown): void {
    if (current.isOver) return;
    const { isPermanent, retryAfterMs = 0 } = readVerdict(thrown);
    const error = errorText(thrown, isSealed);
    const { attempts } = current.claimed;
    if (isPermanent || attempts >= maxAttempts) {
      park(current, error);
      return;
    }
    const waitMs = Math.max(backoffMs(retry, attempts, Math.random()), retryAfterMs);
    const delayMs = Math.min(retry.capMs, waitMs);
    settlements.add(current, { kind: "failed", delayMs, error });
    emit({ ...aboutMessage(current.claimed), kind: "failed", error, retryInMs: delayMs });
  }

  function park(current: HeldMessage, error: string): void {
    settlements.add(current, { kind: "parked", error });
    emit({ ...aboutMessage(current.claimed), kind: "parked", error });
  }

  /** Another relay may have the message now, so this one does not settle it. */
  function lose(current: HeldMessage): void {
    if (!held.delete(current) || current.isOver) return;
    current.isOver = true;
    current.abort(new Error("the lease of this message ended, and another relay may deliver it"));
    emit({ ...aboutMessage(current.claimed), kind: "lost" });
  }

  async function renewAll(): Promise<void> {
    const mine = [...held];
    if (mine.length === 0) return;
    const leaseEndsAt = timer.now() + leaseMs;
    try {
      const endings = mine.map(({ ending }) => ending);
      const renewed = new Set(await store.renew(endings, leaseMs));
      for (const each of mine) {
        if (renewed.has(each.ending.seq)) each.leaseEndsAt = leaseEndsAt;
        // One that is over may have been settled during the renewal.
        else if (!each.isOver) lose(each);
      }
    } catch (cause) {
      emit({ kind: "unavailable", during: "renew", cause });
    }
  }

  function endOverdue(): void {
    const now = timer.now();
    for (const each of running) {
      if (now >= each.leaseEndsAt) lose(each);
      else if (now - each.startedAt >= deliverMs)
        each.abort(new Error(`the delivery took longer than deliverMs (${deliverMs} ms)`));
    }
  }

  async function watch(): Promise<void> {
    try {
      const unwatch = await store.watch?.(namespace, alarm.ring);
      if (unwatch === undefined) return;
      if (stopping !== undefined) return unwatch();
      stops.push(unwatch);
      // What was committed after the last look, and before this, has woken nobody.
      alarm.ring();
    } catch (cause) {
      // The relay polls.
      emit({ kind: "unavailable", during: "claim", cause });
    }
  }

  async function stopAll(): Promise<void> {
    alarm.ring();
    await claiming;
    for (const waiting of queue.splice(0)) settlements.add(waiting, { kind: "released" });
    settlements.flush();
    const until = timer.now() + drainMs;
    while (running.size > 0 && timer.now() < until) await pause(timer, DRAIN_LOOK_MS);
    for (const each of [...running]) each.abort(new Error("the relay was stopped"));
    // The rejections above are handled in the next turn.
    await new Promise((resolve) => setImmediate(resolve));
    await settlements.finish();
    for (const stop of stops) stop();
  }

  return {
    start() {
      if (claiming !== undefined || stopping !== undefined) return;
      stops.push(
        every(Math.ceil(leaseMs / 3), renewAll),
        every(LOOK_MS, async () => endOverdue()),
      );
      void watch();
      claiming = claimUntilStopped();
    },
    stop() {
      stopping ??= Promise.resolve().then(stopAll);
      return stopping;
    },
  };
}

function aboutMessage({ id, topic, attempts }: ClaimedMessage) {
  return { id, topic, attempt: attempts };
}

/** Repeats an action that never rejects, and skips a turn while the last one still runs. The returned function stops it. */
function every(ms: number, action: () => Promise<void>): () => void {
  let isBusy = false;
  const interval = setInterval(async () => {
    if (isBusy) return;
    isBusy = true;
    await action();
    isBusy = false;
  }, ms);
  return () => clearInterval(interval);
}

/** A wait that can be cut short. A ring before the wait begins ends it at once. */
function createAlarm(): { wait(ms: number): Promise<void>; readonly ring: () => void } {
  let isRung = false;
  let end = ignore;
  return {
    async wait(ms) {
      if (!isRung)
        await new Promise<void>((resolve) => {
          const cancel = timer.after(ms, resolve);
          end = () => {
            cancel();
            resolve();
          };
        });
      end = ignore;
      isRung = false;
    },
    ring() {
      isRung = true;
      end();
    },
  };
}

function ignore(): void {}
