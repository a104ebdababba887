/** Many calls with a limit on how many run at once. The results have the order of the items. */
import { NevertwiceError } from "./errors.ts";
import { type Check, wholeFrom } from "./option-checks.ts";

/** Options of a call that handles many items at once. */
export interface BatchOptions {
  /**
   * How many calls run at once.
   * @default 256
   */
  readonly concurrency?: number | undefined;
}

export const BATCH_CHECKS: { readonly concurrency: Check } = { concurrency: wholeFrom(1) };

/** Enough to fill the batches of a store that sends several calls together. */
const CONCURRENCY = 256;

/** Makes a call for each item. A call that fails does not stop the others. */
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

/** The values of all calls. Throws the first failure if there is one. */
export function valuesOrFirstError<Answer>(ends: readonly PromiseSettledResult<Answer>[]): Answer[] {
  return ends.map((end) => {
    if (end.status === "rejected") throw end.reason;
    return end.value;
  });
}

export function isArrayOfRequests(name: string, value: unknown): void {
  if (Array.isArray(value)) return;
  throw new NevertwiceError("options-invalid", `${name} must be an array of requests.`);
}
