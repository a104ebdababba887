/** A hook for lists that are loaded one page at a time. */
import { useState } from "preact/hooks";
import { type LoadState, useLoaded } from "./load-state.ts";

export interface LoadedPage<Row> {
  readonly rows: readonly Row[];
  /** Where the next page starts; undefined after the last. */
  readonly next: string | undefined;
}

export interface PagedList<Row, First extends LoadedPage<Row> = LoadedPage<Row>> {
  /** The first page. */
  readonly loaded: LoadState<First>;
  /** The rows of the first page and of all that were loaded after it. */
  rowsAfter(first: LoadedPage<Row>): LoadedPage<Row>;
  loadMore(after: string): Promise<void>;
  /** Why the next page could not be loaded. */
  readonly problem: string | undefined;
  /** Loads the first page again, and drops the others. */
  restart(): void;
}

/** The first page is loaded again every `everyMs`, until the user loads a second one. */
export function usePages<Row, First extends LoadedPage<Row>>(
  load: (after?: string) => Promise<First & LoadedPage<Row>>,
  asked: string,
  everyMs: number,
): PagedList<Row, First> {
  const [older, setOlder] = useState<LoadedPage<Row> & { readonly asked: string }>();
  const [problem, setProblem] = useState<string>();
  const more = older?.asked === asked ? older : undefined;
  const loaded = useLoaded(() => load(), asked, more === undefined ? everyMs : undefined);
  return {
    loaded,
    problem,
    rowsAfter: (first) =>
      more === undefined ? first : { rows: [...first.rows, ...more.rows], next: more.next },
    async loadMore(after) {
      try {
        const page = await load(after);
        setOlder({ asked, rows: [...(more?.rows ?? []), ...page.rows], next: page.next });
        setProblem(undefined);
      } catch (error) {
        setProblem((error as Error).message);
      }
    },
    restart() {
      setOlder(undefined);
      loaded.reload();
    },
  };
}
