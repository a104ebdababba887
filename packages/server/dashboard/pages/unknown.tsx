/** The list of keys whose outcome is unknown: their work was started and never finished. An operator decides each. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { KeyJson } from "../../src/api/api-json.ts";
import { listKeys, type OperatorDecision } from "../key-actions.ts";
import { useFeed } from "../live.ts";
import { type PagedList, usePages } from "../paging.ts";
import { DecisionDialog } from "../parts/decision.tsx";
import { Head } from "../parts/head.tsx";
import { KeyTable } from "../parts/key-table.tsx";
import { More } from "../parts/more.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import type { PageProps } from "../routes.ts";

const EVERY_MS = 5_000;
/** More than these are shown on request. */
const MOST_ROWS = 50;

export function Page({ title, who }: PageProps): JSX.Element {
  const pages = usePages((after) => listKeys({ undecided: "true" }, after), "undecided", EVERY_MS);
  const { loaded } = pages;
  useWholeList(pages, useFeed().snapshot?.undecided?.count ?? 0);
  const [asked, setAsked] = useState<{ readonly record: KeyJson; readonly decision: OperatorDecision }>();
  const [notice, setNotice] = useState<string>();
  const canAct = who.roles.includes("operator");
  const actions = (record: KeyJson) => (
    <div class="row">
      <button type="button" class="button" onClick={() => setAsked({ record, decision: "done" })}>
        Done…
      </button>
      <button type="button" class="button" onClick={() => setAsked({ record, decision: "not-done" })}>
        Not done…
      </button>
    </div>
  );
  return (
    <div class="page">
      <Head title={title}>
        Held keys whose attempt ended without an outcome: the work may have happened, or not. Check the system
        that does the work, then decide. Until then, requests with the key are refused.
      </Head>
      <div role="status">{notice !== undefined && <p class="notice is-good">{notice}</p>}</div>
      <section class="card table-box" aria-label="Unknown outcomes">
        <Shown loaded={loaded}>
          {(first) => {
            const { rows, next } = pages.rowsAfter(first);
            return (
              <>
                {rows.length === 0 ? (
                  <NoneWaiting hasMore={next !== undefined} />
                ) : (
                  <KeyTable rows={rows} at={loaded.at} areWaiting {...(canAct && { actions })} />
                )}
                <More pages={pages} next={next} />
              </>
            );
          }}
        </Shown>
      </section>
      {asked !== undefined && (
        <DecisionDialog
          record={asked.record}
          verb="resolve"
          decision={asked.decision}
          onClose={() => setAsked(undefined)}
          onDone={(text) => {
            setNotice(text);
            pages.restart();
          }}
        />
      )}
    </div>
  );
}

/** The server looks at a limited number of keys for one page. This goes on until all keys that wait are found. */
function useWholeList(pages: PagedList<KeyJson>, count: number): void {
  const first = pages.loaded.value;
  const { rows, next } = first === undefined ? { rows: [], next: undefined } : pages.rowsAfter(first);
  const isShort = rows.length < count && pages.problem === undefined;
  useEffect(() => {
    if (isShort && next !== undefined && rows.length < MOST_ROWS) void pages.loadMore(next);
  }, [isShort, next]);
}

function NoneWaiting({ hasMore }: { readonly hasMore: boolean }): JSX.Element {
  if (hasMore)
    return (
      <Empty icon="search" title="None found so far">
        <p>None of the keys that were looked at waits for a decision. More of them are left to look at.</p>
      </Empty>
    );
  return (
    <Empty icon="yes" title="No unknown outcomes">
      <p>
        No key waits for a decision. Lapsed keys that are not held need none: the next request takes them
        over.
      </p>
      <a class="button" href="/keys?state=lapsed">
        Lapsed keys
      </a>
    </Empty>
  );
}
