/** The list of all keys, with search and filters, one page at a time. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { KeyJson } from "../../src/api/api-json.ts";
import { listKeys } from "../key-actions.ts";
import { filteredAddress, navigate } from "../navigation.ts";
import { usePages } from "../paging.ts";
import { Head } from "../parts/head.tsx";
import { ICONS } from "../parts/icons.tsx";
import { KeyTable } from "../parts/key-table.tsx";
import { More } from "../parts/more.tsx";
import { StateFilter } from "../parts/state-filter.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import type { PageProps } from "../routes.ts";

const STATES: readonly KeyJson["state"][] = ["pending", "lapsed", "completed", "released"];
const TYPING_MS = 250;
const EVERY_MS = 5_000;

export function Page({ title, query }: PageProps): JSX.Element {
  const filters = {
    state: query.get("state") ?? "",
    search: query.get("search") ?? "",
    scope: query.get("scope") ?? "",
  };
  const asked = JSON.stringify(filters);
  const pages = usePages((after) => listKeys(filters, after), asked, EVERY_MS);
  const { loaded } = pages;
  const isFiltered = Object.values(filters).some((value) => value !== "");

  return (
    <div class="page">
      <Head title={title}>Every piece of work that must not happen twice, and its state.</Head>
      <Filters filters={filters} />
      <section class="card table-box" aria-label="Keys">
        <Shown loaded={loaded}>
          {(page) => {
            const { rows, next } = pages.rowsAfter(page);
            if (rows.length === 0) return <NoKeys isFiltered={isFiltered} />;
            return (
              <>
                <KeyTable rows={rows} at={loaded.at} />
                <More pages={pages} next={next} />
              </>
            );
          }}
        </Shown>
      </section>
    </div>
  );
}

interface FilterValues {
  readonly state: string;
  readonly search: string;
  readonly scope: string;
}

function Filters({ filters }: { readonly filters: FilterValues }): JSX.Element {
  const [typed, setTyped] = useState(filters.search);
  useEffect(() => {
    if (typed === filters.search) return undefined;
    const timer = setTimeout(() => choose({ ...filters, search: typed }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed, filters]);
  return (
    <search class="row">
      <label class="search">
        <span class="unseen">Search keys, operations and scopes</span>
        {ICONS.search}
        <input
          class="input"
          type="search"
          placeholder="Search keys, operations and scopes"
          value={typed}
          onInput={({ currentTarget }) => setTyped(currentTarget.value)}
        />
      </label>
      <StateFilter states={STATES} chosen={filters.state} choose={(state) => choose({ ...filters, state })} />
      {filters.scope !== "" && (
        <button type="button" class="button" onClick={() => choose({ ...filters, scope: "" })}>
          Scope {filters.scope} {ICONS.no}
        </button>
      )}
    </search>
  );
}

function choose(filters: FilterValues): void {
  navigate(filteredAddress("/keys", filters), "replace");
}

function NoKeys({ isFiltered }: { readonly isFiltered: boolean }): JSX.Element {
  if (isFiltered)
    return (
      <Empty icon="search" title="No matching keys">
        <p>No key has this state and contains this text.</p>
        <button type="button" class="button" onClick={() => navigate("/keys", "replace")}>
          Show all keys
        </button>
      </Empty>
    );
  return (
    <Empty icon="keys" title="No keys yet">
      <p>Send a request through the gateway, or claim a key over the API. It appears here immediately.</p>
    </Empty>
  );
}
