/**
 * What this process may still spend of one limit. The limit is divided into blocks that all processes take from the
 * store; a block is spent here without asking the store again. A block stays taken until the last key that may have
 * been counted in it has expired, so the keys that are alive never exceed the blocks that are taken:
 *
 *   taken ├── spent here for spendMs ──┤ a key that runs ├── the retention of that key ──┤ free again
 */

import { canShareAcrossCalls } from "#platform";
import type { Engine } from "../core/engine.ts";
import { HUNDRED_YEARS_MS } from "../core/option-checks.ts";
import { type Block, takeBlock } from "./quota-block.ts";
import { countUndecided } from "./quota-undecided.ts";

export interface QuotaBudget {
  readonly of: Omit<Block, "index">;
  /** Whether something is left to spend without asking the store. */
  isOpen(): boolean;
  /** Takes blocks until the budget is open. False if other processes have taken all of them. */
  refill(): Promise<boolean>;
  /** Spends one from an open budget. The returned function gives it back. */
  take(): () => void;
  /** Spends an amount that is known only afterwards. What exceeds the budget is paid from the next blocks. */
  spend(amount: number): void;
}

/** A limit is divided into at most this many blocks. */
const BLOCKS = 64;

/** A process that used up its last block may spend the next one for this part of the retention, others for all of it. */
const SHORT_PART = 8;
const SHORTEST_SPEND_MS = 1_000;

/** How long a process waits before it asks again after it found all blocks taken; doubled each time it finds that. */
const REST_MS = 5_000;
const LONGEST_REST_MS = 60_000;

interface OpenBlock {
  left: number;
  readonly from: number;
  readonly until: number;
}

export function createBudget(engine: Engine, of: Omit<Block, "index">, now: () => number): QuotaBudget {
  const { limit } = of;
  const size = Math.ceil(limit / BLOCKS);
  const count = Math.ceil(limit / size);
  const open: OpenBlock[] = [];
  let debt = 0;
  let debtTime = { from: 0, until: 0 };
  let rest = { from: 0, until: 0 };
  let restMs = REST_MS;
  let refilling: Promise<boolean> | undefined;
  // A short period frees a block sooner; a long one keeps a caller who comes rarely from taking a block for each request.
  let isUsedUp = size === 1;

  function isOpen(): boolean {
    const time = now();
    if (!isWithin(time, debtTime)) debt = 0;
    for (let last = open.at(-1); last !== undefined && !isWithin(time, last); last = open.at(-1)) {
      open.pop();
      isUsedUp = false;
    }
    return debt === 0 && open.length > 0;
  }

  /** Spends from the newest open block, and returns how much it had. */
  function spendSome(block: OpenBlock, amount: number): number {
    const spent = Math.min(block.left, amount);
    block.left -= spent;
    if (block.left === 0) {
      open.pop();
      isUsedUp = true;
    }
    return spent;
  }

  function add(index: number, from: number, until: number): void {
    const whole = Math.min(size, limit - index * size);
    const paid = Math.min(debt, whole);
    debt -= paid;
    if (paid < whole) open.push({ left: whole - paid, from, until });
  }

  /** How many blocks are used up by keys that are held for longer than a block is taken. */
  async function countHeldBlocks(): Promise<number> {
    const { retentionMs, maxRunMs, onLapsed } = engine.policy;
    if (onLapsed !== "hold" || (of.name !== "keys" && of.name !== "totalKeys")) return 0;
    const held = await countUndecided(engine, {
      scope: of.scope,
      isForAllScopes: of.name === "totalKeys",
      claimedBefore: now() - 2 * retentionMs - Math.min(retentionMs, maxRunMs),
      most: limit,
    });
    return Math.ceil(held / size);
  }

  async function takeUntilOpen(): Promise<boolean> {
    const free = count - (await countHeldBlocks());
    // Each process starts at a random block, so that processes do not compete for the same ones.
    const start = Math.floor(Math.random() * free);
    for (let step = 0; step < free; step++) {
      const index = (start + step) % free;
      const { retentionMs, maxRunMs } = engine.policy;
      const spendMs = Math.max(
        SHORTEST_SPEND_MS,
        isUsedUp ? Math.ceil(retentionMs / SHORT_PART) : retentionMs,
      );
      const keptMs = spendMs + Math.min(spendMs, maxRunMs) + retentionMs;
      const sentAt = now();
      if (await takeBlock(engine, { ...of, index }, Math.min(keptMs, HUNDRED_YEARS_MS)))
        add(index, sentAt, sentAt + spendMs);
      if (!isOpen()) continue;
      restMs = REST_MS;
      return true;
    }
    rest = { from: now(), until: now() + restMs };
    restMs = Math.min(2 * restMs, LONGEST_REST_MS);
    return false;
  }

  return {
    of,
    isOpen,
    async refill() {
      if (isOpen()) return true;
      if (isWithin(now(), rest)) return false;
      if (!canShareAcrossCalls) return takeUntilOpen();
      // Requests that arrive meanwhile wait for the same blocks.
      refilling ??= takeUntilOpen().finally(() => {
        refilling = undefined;
      });
      return refilling;
    },
    take() {
      const block = open.at(-1) as OpenBlock;
      spendSome(block, 1);
      return () => {
        if (block.left++ === 0) open.push(block);
      };
    },
    spend(amount) {
      let left = amount;
      while (left > 0 && isOpen()) left -= spendSome(open.at(-1) as OpenBlock, left);
      if (left === 0) return;
      debt += left;
      debtTime = { from: now(), until: now() + engine.policy.retentionMs };
    },
  };
}

/** A clock that goes back past `from` ends the period, which would otherwise last longer by as much as the clock went back. */
function isWithin(time: number, { from, until }: { readonly from: number; readonly until: number }): boolean {
  return from <= time && time < until;
}
