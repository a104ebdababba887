/** The button below a list that loads its next page. */
import type { JSX } from "preact";
import type { PagedList } from "../paging.ts";

export function More(props: {
  readonly pages: Pick<PagedList<unknown>, "problem" | "loadMore">;
  readonly next: string | undefined;
}): JSX.Element {
  const { pages, next } = props;
  return (
    <>
      {pages.problem !== undefined && <p class="notice is-bad">{pages.problem}</p>}
      {next !== undefined && (
        <div class="more">
          <button type="button" class="button" onClick={() => void pages.loadMore(next)}>
            Show more
          </button>
        </div>
      )}
    </>
  );
}
