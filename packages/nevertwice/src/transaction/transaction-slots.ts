/**
 * How many transactions may run at once on the pool that the store uses itself. If all of its connections were in
 * transactions, the store could neither claim nor complete nor renew until one of them ends, and a nested `guard.run` in
 * their work would wait for a connection that only its own transaction can give back. So the store keeps one.
 */
import type { StatementTransactions } from "../core/store-transactions.ts";

export interface TransactionSlots {
  /** Runs `transaction` when one of the others has ended, first come, first served. */
  run<T>(transaction: () => Promise<T>): Promise<T>;
}

/** By the pool, since guards and adapters may share one. */
const slotsByPool = new WeakMap<object, TransactionSlots>();

/** Undefined if the transactions run on another pool than the store, or on one whose size cannot be seen. */
export function slotsFor(
  { clients }: Pick<StatementTransactions, "clients">,
  source: object,
): TransactionSlots | undefined {
  const pool = poolBehind(source);
  const known = slotsByPool.get(pool);
  if (known !== undefined) return known;
  const size = poolSize(pool);
  const ownCount = clients.filter((client) => poolBehind(client) === pool).length;
  if (size === undefined || ownCount === 0) return undefined;
  // With a single connection, the store waits for the transaction: that is enough for one caller at a time.
  const slots = createSlots(Math.max(1, size - ownCount));
  slotsByPool.set(pool, slots);
  return slots;
}

interface PoolMembers {
  /** Drizzle's client. */
  readonly $client?: object;
  /** The pool behind the promises of mysql2. */
  readonly pool?: object;
  /** Of `pg` and postgres.js. */
  readonly options?: { readonly max?: unknown };
  /** Of mysql2. */
  readonly config?: { readonly connectionLimit?: unknown };
}

function poolBehind(handle: unknown): object {
  const client = (handle as PoolMembers).$client ?? (handle as PoolMembers);
  return (client as PoolMembers).pool ?? client;
}

function poolSize({ options, config }: PoolMembers): number | undefined {
  const size = options?.max ?? config?.connectionLimit;
  return typeof size === "number" && size >= 1 ? Math.floor(size) : undefined;
}

function createSlots(count: number): TransactionSlots {
  let free = count;
  const waiting: (() => void)[] = [];
  return {
    async run(transaction) {
      if (free > 0) free--;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await transaction();
      } finally {
        const next = waiting.shift();
        if (next === undefined) free++;
        else next();
      }
    },
  };
}
