/** Many calls with so many at a time, answered in the order in which they were asked for. */
import { NevertwiceError } from "./errors.ts";
import { type Check, wholeFrom } from "./policy.ts";

export interface BatchOptions {
  /** How many are under way at once; default 256. */
  readonly concurrency?: number | undefined;
}

export const BATCH_CHECKS: { readonly concurrency: Check } = { concurrency: wholeFrom(1) };

/** Enough for a store that lets calls travel together to fill what travels. */
const CONCURRENCY = 256;

/** How each call ended: one that fails does not keep the others from being made, nor from being answered. */
export async function settleEach<Item, Answer>(
  items: readonly Item[],
  call: (item: Item) => Promise<Answer>,
  concurrency: number = CONCURRENCY,
): Promise<readonly PromiseSettledResult<Answer>[]> {
  const ends: PromiseSettledResult<Answer>[] = new Array(items.length);
  const queue = items.entries();
  async function work(): Promise<void> {
    for (const [index, item] of queue) {
      try {
        ends[index] = { status: "fulfilled", value: await call(item) };
      } catch (reason) {
        ends[index] = { status: "rejected", reason };
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, work));
  return ends;
}

/** The answers, or the first failure. */
export function answersOf<Answer>(ends: readonly PromiseSettledResult<Answer>[]): Answer[] {
  return ends.map((end) => {
    if (end.status === "rejected") throw end.reason;
    return end.value;
  });
}

export function isList(name: string, value: unknown): void {
  if (Array.isArray(value)) return;
  throw new NevertwiceError("options-invalid", `${name} must be an array of requests.`);
}
