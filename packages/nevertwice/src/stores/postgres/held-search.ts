/** Looks for held records that have lapsed, and goes on each time where it stopped. */
import type { createStatements } from "../postgres-sql.ts";
import { allCancelled, type RunStatement } from "./client.ts";
import type { HeldSearch } from "./held-sql.ts";
import { requirePrimary } from "./steps.ts";

/** How many records a statement looks at. */
const ROWS = 5_000;

export interface SearchReport {
  /** Whether every held record that has lapsed was found. */
  readonly isDone: boolean;
  /** Whether another search would come further. */
  readonly more: boolean;
}

/** At most `pages` statements of each kind, by `run`. */
export type SearchHeld = (
  run: RunStatement,
  pages: number,
  bound: { readonly signal?: AbortSignal | undefined },
) => Promise<SearchReport>;

export function createHeldSearch(
  statements: Pick<ReturnType<typeof createStatements>, "markLapsed">,
): SearchHeld {
  /** When the first record was claimed that the next search looks at. */
  const starts: Record<HeldSearch, bigint> = { recent: 0n, earlier: 0n };

  async function search(
    run: RunStatement,
    kind: HeldSearch,
    pages: number,
    bound: Parameters<SearchHeld>[2],
  ) {
    const before = starts[kind];
    let from = before;
    let again: bigint | undefined;
    let isDone = false;
    for (let page = 0; page < pages && !isDone; page++) {
      const parameters = [String(from), String(ROWS)];
      const rows = requirePrimary(await run(statements.markLapsed[kind], parameters, allCancelled([bound])));
      const [, isIndexed, seen, waiting, last] = rows[0] ?? [];
      if (isIndexed !== "true") return { isDone: false, more: false };
      if (typeof waiting === "string") again ??= BigInt(waiting);
      if (typeof last === "string") from = BigInt(last);
      isDone = Number(seen) < ROWS;
    }
    const next = again ?? from;
    // Another search may have come further meanwhile.
    if (next > starts[kind]) starts[kind] = next;
    return { isDone, more: !isDone && next > before };
  }

  return async (run, pages, bound) => {
    const recent = await search(run, "recent", pages, bound);
    const earlier = await search(run, "earlier", pages, bound);
    return { isDone: recent.isDone && earlier.isDone, more: recent.more || earlier.more };
  };
}
