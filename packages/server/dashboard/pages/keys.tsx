/** The list of all keys, with search and filters, one page at a time. */
import type { JSX } from "preact";
import type { KeyJson } from "../../src/api/api-json.ts";
import { type KeyPage, listKeys } from "../key-actions.ts";
import { filteredAddress, navigate } from "../navigation.ts";
import { usePages } from "../paging.ts";
import { Head } from "../parts/head.tsx";
import { ICONS } from "../parts/icons.tsx";
import { KeyTable } from "../parts/key-table.tsx";
import { More } from "../parts/more.tsx";
import { OtherNamespaces } from "../parts/namespaces.tsx";
import { SearchField } from "../parts/search-field.tsx";
import { StateFilter } from "../parts/state-filter.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import type { PageProps } from "../routes.ts";

const STATES: readonly KeyJson["state"][] = ["pending", "lapsed", "completed", "released"];
const FILTERS = ["state", "search", "operation", "scope", "before"] as const;
const EVERY_MS = 5_000;

/** A time that `Date` can hold in every time zone. */
const LATEST = 8.64e15 - 86_400_000;

type FilterValues = Readonly<Record<(typeof FILTERS)[number], string>>;

export function Page({ title, query, who }: PageProps): JSX.Element {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""])) as FilterValues;
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
          {(first) => {
            const { rows, next } = pages.rowsAfter(first);
            return (
              <>
                {rows.length === 0 ? (
                  <NoKeys isFiltered={isFiltered} hasMore={next !== undefined} />
                ) : (
                  <KeyTable rows={rows} at={loaded.at} />
                )}
                <More pages={pages} next={next} />
              </>
            );
          }}
        </Shown>
      </section>
      {loaded.value !== undefined && <Order order={loaded.value.order} />}
      <OtherNamespaces own={who.namespace} />
    </div>
  );
}

function Order({ order }: Pick<KeyPage, "order">): JSX.Element {
  return (
    <p class="muted">
      {order === "newest-first"
        ? "The key that was claimed last is first."
        : "This store keeps no order: a new key can be on any page."}
    </p>
  );
}

function Filters({ filters }: { readonly filters: FilterValues }): JSX.Element {
  const change = (more: Partial<FilterValues>) => choose({ ...filters, ...more });
  return (
    <search class="row">
      <SearchField
        name="Search keys, operations and scopes"
        value={filters.search}
        onChange={(search) => change({ search })}
      />
      <StateFilter states={STATES} chosen={filters.state} choose={(state) => change({ state })} />
      <label class="until">
        Claimed until
        <input
          class="input"
          type="datetime-local"
          step={1}
          value={localTime(filters.before)}
          onChange={({ currentTarget }) => change({ before: toMilliseconds(currentTarget.value) })}
        />
      </label>
      <Chip name="Operation" value={filters.operation} remove={() => change({ operation: "" })} />
      <Chip name="Scope" value={filters.scope} remove={() => change({ scope: "" })} />
    </search>
  );
}

function Chip(props: {
  readonly name: string;
  readonly value: string;
  readonly remove: () => void;
}): JSX.Element | null {
  if (props.value === "") return null;
  return (
    <button type="button" class="button" title="Remove this filter" onClick={props.remove}>
      {props.name} {props.value} {ICONS.no}
    </button>
  );
}

/** In the form of the input: the browser's time zone, without its name. */
function localTime(before: string): string {
  const at = Number(before);
  if (before === "" || !(Math.abs(at) < LATEST)) return "";
  const offsetMs = new Date(at).getTimezoneOffset() * 60_000;
  return new Date(at - offsetMs).toISOString().slice(0, 19);
}

/** The last millisecond of the second, so that all keys of that second are shown. */
function toMilliseconds(local: string): string {
  const at = new Date(local).getTime();
  return Number.isNaN(at) ? "" : String(at + 999);
}

function choose(filters: FilterValues): void {
  navigate(filteredAddress("/keys", filters), "replace");
}

function NoKeys(props: { readonly isFiltered: boolean; readonly hasMore: boolean }): JSX.Element {
  if (props.hasMore)
    return (
      <Empty icon="search" title="No match so far">
        <p>None of the keys that were looked at match. More of them are left to look at.</p>
      </Empty>
    );
  if (props.isFiltered)
    return (
      <Empty icon="search" title="No matching keys">
        <p>No key matches all of these filters.</p>
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
