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
import { systemTimer } from "../core/clock.ts";
import { randomToken } from "../core/token.ts";
import { type Content, errorText, type Message } from "./message.ts";
import type { RelayEvent, RelaySettings } from "./relay-options.ts";
import type { ClaimedMessage, Ending, FailedEnding, OutboxStore, ParkedEnding } from "./store.ts";
import { readVerdict } from "./verdict.ts";

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
}

/** A message that this relay has claimed. */
interface Held {
  readonly claimed: ClaimedMessage;
  readonly ending: Ending;
  /** By this process's own clock, counted from before the claim or the renewal was sent. */
  leaseEndsAt: number;
  /** Set while it is being delivered. */
  startedAt: number | undefined;
  /** Set once it is known how the attempt ended; the database may not know yet. */
  isOver: boolean;
  abort(reason: Error): void;
}

interface Endings {
  delivered: Held[];
  failed: (FailedEnding & { readonly held: Held })[];
  parked: (ParkedEnding & { readonly held: Held })[];
  released: Held[];
}

const SETTLED_AT_ONCE = 1_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** How often to look for deliveries that take too long. */
const LOOK_MS = 100;
const REPAIR_EVERY_MS = 60_000;

export function createRelay({ store, namespace, open }: RelayContext, settings: RelaySettings): Relay {
  const { deliver, concurrency, batch, leaseMs, deliverMs, pollMs, maxAttempts, drainMs, retry } = settings;
  const timer = systemTimer;
  const queue: Held[] = [];
  const held = new Set<Held>();
  const running = new Set<Held>();
  let endings: Endings = noEndings();
  let settling: Promise<void> | undefined;
  let claiming: Promise<void> | undefined;
  let stopping: Promise<void> | undefined;
  let wake = () => {};
  /** A wake that came while nothing was waiting for it. */
  let isWoken = false;
  const stops: (() => void)[] = [];

  function emit(event: RelayEvent): void {
    try {
      settings.onEvent?.(event);
    } catch {
      // An observer must not stop the relay.
    }
  }

  const aboutMessage = ({ id, topic, attempts }: ClaimedMessage) => ({ id, topic, attempt: attempts });

  function wakeUp(): void {
    isWoken = true;
    wake();
  }

  /** Resolves after `ms`, or as soon as there may be something to do. */
  async function idle(ms: number): Promise<void> {
    if (!isWoken)
      await new Promise<void>((resolve) => {
        const cancel = timer.after(ms, resolve);
        wake = () => {
          cancel();
          resolve();
        };
      });
    wake = () => {};
    isWoken = false;
  }

  async function claimUntilStopped(): Promise<void> {
    let failures = 0;
    let repairAt = 0;
    while (stopping === undefined) {
      if (queue.length >= batch) {
        await idle(pollMs);
        continue;
      }
      try {
        if (timer.now() >= repairAt) {
          await store.repair(namespace);
          repairAt = timer.now() + REPAIR_EVERY_MS;
        }
        const changed = await claimOnce();
        failures = 0;
        if (changed === 0) await idle(pollMs * (0.5 + Math.random()));
      } catch (cause) {
        emit({ kind: "unavailable", during: "claim", cause });
        await pauseAfter(failures++);
      }
    }
  }

  async function pauseAfter(failures: number): Promise<void> {
    const ms = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures, 10));
    await (stopping === undefined ? idle(ms * (0.5 + Math.random() / 2)) : pause(timer, FIRST_PAUSE_MS));
  }

  async function claimOnce(): Promise<number> {
    const token = randomToken();
    const leaseEndsAt = timer.now() + leaseMs;
    const { messages, changed } = await store.claim({ namespace, limit: batch, leaseMs, token });
    for (const claimed of messages) {
      const ending = { seq: claimed.seq, token };
      const taken: Held = {
        claimed,
        ending,
        leaseEndsAt,
        startedAt: undefined,
        isOver: false,
        abort: () => {},
      };
      held.add(taken);
      queue.push(taken);
    }
    runQueue();
    return changed;
  }

  function runQueue(): void {
    while (running.size < concurrency && queue.length > 0) {
      const next = queue.shift() as Held;
      if (stopping !== undefined) release(next);
      else if (timer.now() >= next.leaseEndsAt) lose(next);
      else void run(next);
    }
    if (queue.length < batch) wakeUpIfFull();
  }

  let wasFull = false;
  function wakeUpIfFull(): void {
    if (wasFull) wakeUp();
    wasFull = queue.length >= batch;
  }

  async function run(current: Held): Promise<void> {
    const { claimed } = current;
    running.add(current);
    current.startedAt = timer.now();
    try {
      // A message that ends the process on every attempt must not do so for ever.
      if (claimed.attempts > maxAttempts)
        park(current, `the relay ended during attempt ${claimed.attempts - 1}, without an answer`);
      else await deliverOne(current);
    } finally {
      running.delete(current);
      runQueue();
      settle();
    }
  }

  async function deliverOne(current: Held): Promise<void> {
    const { claimed, startedAt = 0 } = current;
    try {
      await attempt(current);
    } catch (error) {
      fail(current, error);
      return;
    }
    if (current.isOver) return;
    current.isOver = true;
    endings.delivered.push(current);
    emit({ ...aboutMessage(claimed), kind: "delivered", tookMs: timer.now() - startedAt });
  }

  /** Calls the deliverer. A delivery that ignores its signal is no longer waited for. */
  function attempt(current: Held): Promise<unknown> {
    const { id, topic, key, createdAt, content, attempts } = current.claimed;
    const controller = new AbortController();
    return new Promise((resolve, reject) => {
      current.abort = (reason) => {
        controller.abort(reason);
        reject(reason);
      };
      const message: Message = { id, topic, key, createdAt, ...open(id, content) };
      const answer = deliver(message, { signal: controller.signal, attempt: attempts });
      Promise.resolve(answer).then(resolve, reject);
    });
  }

  function fail(current: Held, error: unknown): void {
    if (current.isOver) return;
    const { isPermanent, retryAfterMs } = readVerdict(error);
    const text = errorText(error);
    const { attempts } = current.claimed;
    if (isPermanent || attempts >= maxAttempts) return park(current, text);
    const waitMs = Math.max(backoffMs(retry, attempts, Math.random()), retryAfterMs ?? 0);
    const delayMs = Math.min(retry.capMs, waitMs);
    current.isOver = true;
    endings.failed.push({ ...current.ending, held: current, delayMs, error: text });
    emit({ ...aboutMessage(current.claimed), kind: "failed", error: text, retryInMs: delayMs });
  }

  function park(current: Held, error: string): void {
    if (current.isOver) return;
    current.isOver = true;
    endings.parked.push({ ...current.ending, held: current, error });
    emit({ ...aboutMessage(current.claimed), kind: "parked", error });
  }

  function release(current: Held): void {
    current.isOver = true;
    endings.released.push(current);
  }

  /** Another relay may have the message now, so this one must not settle it. */
  function lose(current: Held): void {
    if (!held.delete(current) || current.isOver) return;
    current.isOver = true;
    current.abort(new Error("the lease of this message ended, and another relay may deliver it"));
    emit({ ...aboutMessage(current.claimed), kind: "lost" });
  }

  function settle(): void {
    settling ??= settleAll().finally(() => {
      settling = undefined;
    });
  }

  async function settleAll(): Promise<void> {
    // Deliveries that end together are settled together.
    await new Promise((resolve) => setImmediate(resolve));
    let failures = 0;
    while (hasEndings(endings)) {
      const now = takeEndings();
      const all = [now.delivered, now.failed.map(toHeld), now.parked.map(toHeld), now.released].flat();
      try {
        const keys = now.delivered.flatMap(({ claimed: { key } }) => (key === undefined ? [] : [key]));
        const { deleted, advanced } = await store.settle({
          namespace,
          delivered: now.delivered.map(toEnding),
          keys,
          failed: now.failed,
          parked: now.parked,
          released: now.released.map(toEnding),
        });
        failures = 0;
        for (const each of all) held.delete(each);
        if (advanced > 0) wakeUp();
        if (deleted < now.delivered.length) wakeUp();
      } catch (cause) {
        emit({ kind: "unavailable", during: "settle", cause });
        // Still held: the renewals go on, and nobody else delivers it meanwhile. Without an answer the leases end.
        const isLate = (each: Held) => timer.now() >= each.leaseEndsAt;
        for (const each of all) if (isLate(each)) held.delete(each);
        putBack(now, (each) => held.has(each));
        if (stopping !== undefined && failures >= STOP_TRIES) return;
        await pause(timer, Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures++, 10)));
      }
    }
  }

  function takeEndings(): Endings {
    const { delivered, failed, parked, released } = endings;
    const now: Endings = {
      delivered: delivered.splice(0, SETTLED_AT_ONCE),
      failed: failed.splice(0, SETTLED_AT_ONCE),
      parked: parked.splice(0, SETTLED_AT_ONCE),
      released: released.splice(0, SETTLED_AT_ONCE),
    };
    return now;
  }

  function putBack(now: Endings, isHeld: (held: Held) => boolean): void {
    endings = {
      delivered: [...now.delivered.filter(isHeld), ...endings.delivered],
      failed: [...now.failed.filter((each) => isHeld(each.held)), ...endings.failed],
      parked: [...now.parked.filter((each) => isHeld(each.held)), ...endings.parked],
      released: [...now.released.filter(isHeld), ...endings.released],
    };
  }

  async function renewAll(): Promise<void> {
    const mine = [...held];
    if (mine.length === 0) return;
    const leaseEndsAt = timer.now() + leaseMs;
    try {
      const renewed = new Set(await store.renew(mine.map(toEnding), leaseMs));
      for (const each of mine) {
        if (renewed.has(each.ending.seq)) each.leaseEndsAt = leaseEndsAt;
        // It may have been settled meanwhile, and then it is no longer held.
        else if (held.has(each) && !each.isOver) lose(each);
      }
    } catch (cause) {
      emit({ kind: "unavailable", during: "renew", cause });
    }
  }

  function every(ms: number, action: () => unknown): void {
    let isBusy = false;
    const interval = setInterval(async () => {
      if (isBusy) return;
      isBusy = true;
      await action();
      isBusy = false;
    }, ms);
    stops.push(() => clearInterval(interval));
  }

  function endOverdue(): void {
    const now = timer.now();
    for (const each of running) {
      if (now >= each.leaseEndsAt) lose(each);
      else if (now - (each.startedAt ?? now) >= deliverMs)
        each.abort(new Error(`the delivery took longer than deliverMs (${deliverMs} ms)`));
    }
  }

  async function watch(): Promise<void> {
    try {
      const unwatch = await store.watch?.(namespace, wakeUp);
      if (unwatch === undefined) return;
      if (stopping === undefined) stops.push(unwatch);
      else unwatch();
    } catch (cause) {
      // It polls.
      emit({ kind: "unavailable", during: "claim", cause });
    }
  }

  async function stopAll(): Promise<void> {
    wakeUp();
    await claiming;
    for (const waiting of queue.splice(0)) release(waiting);
    settle();
    const until = timer.now() + drainMs;
    while (running.size > 0 && timer.now() < until) await pause(timer, DRAIN_LOOK_MS);
    for (const each of [...running]) each.abort(new Error("the relay was stopped"));
    // The rejections above are handled in the next turn.
    await new Promise((resolve) => setImmediate(resolve));
    settle();
    await settling;
    for (const stop of stops) stop();
  }

  return {
    start() {
      if (claiming !== undefined || stopping !== undefined) return;
      every(Math.ceil(leaseMs / 3), renewAll);
      every(LOOK_MS, endOverdue);
      void watch();
      claiming = claimUntilStopped();
    },
    stop() {
      stopping ??= Promise.resolve().then(stopAll);
      return stopping;
    },
  };
}

/** How often a relay that stops tries to tell the database how its deliveries ended. */
const STOP_TRIES = 5;
const DRAIN_LOOK_MS = 5;

function noEndings(): Endings {
  return { delivered: [], failed: [], parked: [], released: [] };
}

function hasEndings({ delivered, failed, parked, released }: Endings): boolean {
  return delivered.length + failed.length + parked.length + released.length > 0;
}

function toEnding({ ending }: Held): Ending {
  return ending;
}

function toHeld({ held }: { readonly held: Held }): Held {
  return held;
}
