/** The page of holds: how much of each resource is taken, by which requesters, and for how long. */
import type { JSX } from "preact";
import type { HoldJson, PageJson, ResourceJson } from "../../src/api/api-json.ts";
import { useNow } from "../load-state.ts";
import { inNaturalOrder } from "../natural-order.ts";
import { filteredAddress, navigate } from "../navigation.ts";
import { type LoadedPage, type PagedList, usePages } from "../paging.ts";
import { Badge } from "../parts/badge.tsx";
import { Age, Countdown } from "../parts/countdown.tsx";
import { Head } from "../parts/head.tsx";
import { ICONS } from "../parts/icons.tsx";
import { More } from "../parts/more.tsx";
import { ResourceBoard } from "../parts/resource-board.tsx";
import { SearchField } from "../parts/search-field.tsx";
import { StateFilter } from "../parts/state-filter.tsx";
import { Empty, Failed, Shown } from "../parts/states.tsx";
import type { PageProps } from "../routes.ts";
import { ApiError, get, serverNow } from "../server.ts";

const EVERY_MS = 3_000;
const MAX_RESOURCES = 1_000;
const MAX_HOLDS = 200;
const STATES = ["held", "confirmed", "released", "expired"];
const ALL = "all";

interface HoldFilterValues {
  /** Empty for `held`, which the page shows first. */
  readonly state: string;
  readonly resource: string;
  readonly search: string;
}

async function listResources(search: string, after?: string): Promise<LoadedPage<ResourceJson>> {
  const query = { search, after, limit: MAX_RESOURCES };
  const { rows, next } = await get<PageJson<ResourceJson>>("/v1/resources", query);
  return { rows, next };
}

async function listHolds(
  { state, resource }: HoldFilterValues,
  after?: string,
): Promise<LoadedPage<HoldJson>> {
  const query = { state: state === ALL ? "" : state || "held", resource, after, limit: MAX_HOLDS };
  const { rows, next } = await get<PageJson<HoldJson>>("/v1/holds", query);
  return { rows, next };
}

export function Page({ title, query }: PageProps): JSX.Element {
  const filters = {
    state: query.get("state") ?? "",
    resource: query.get("resource") ?? "",
    search: query.get("search") ?? "",
  };
  const { state, resource, search } = filters;
  const resources = usePages((after) => listResources(search, after), search, EVERY_MS);
  const holds = usePages((after) => listHolds(filters, after), JSON.stringify([state, resource]), EVERY_MS);
  const { error, value } = resources.loaded;
  return (
    <div class="page">
      <Head title={title}>
        Units of a resource that are reserved for a limited time, until they are confirmed, released or
        expired.
      </Head>
      {value === undefined && error !== undefined ? (
        <section class="card">
          {error instanceof ApiError && error.code === "not-supported" ? (
            <Empty icon="holds" title="This store cannot keep holds">
              <p>{error.message}</p>
            </Empty>
          ) : (
            <Failed error={error} retry={resources.restart} />
          )}
        </section>
      ) : (
        <>
          <search class="row">
            <SearchField
              name="Search resources"
              value={search}
              onChange={(text) => choose({ ...filters, search: text })}
            />
          </search>
          <Resources pages={resources} isSearched={search !== ""} />
          <HoldFilters filters={filters} />
          <section class="card table-box" aria-label="Holds">
            <Shown loaded={holds.loaded}>
              {(first) => {
                const { rows, next } = holds.rowsAfter(first);
                return (
                  <>
                    <HoldTable rows={rows} />
                    <More pages={holds} next={next} />
                  </>
                );
              }}
            </Shown>
          </section>
        </>
      )}
    </div>
  );
}

function Resources(props: {
  readonly pages: PagedList<ResourceJson>;
  readonly isSearched: boolean;
}): JSX.Element {
  const { pages, isSearched } = props;
  return (
    <Shown loaded={pages.loaded}>
      {(first) => {
        const { rows, next } = pages.rowsAfter(first);
        if (rows.length === 0 && next === undefined)
          return isSearched && <p class="notice">No resource has this text in its name.</p>;
        return (
          <>
            <ResourceBoard rows={inNaturalOrder(rows)} />
            {next !== undefined && (
              <p class="muted">
                {isSearched
                  ? "More resources are left to search."
                  : `These are the first ${rows.length}: search for others, or show more.`}
              </p>
            )}
            <More pages={pages} next={next} />
          </>
        );
      }}
    </Shown>
  );
}

function HoldFilters({ filters }: { readonly filters: HoldFilterValues }): JSX.Element {
  const { state, resource } = filters;
  return (
    <search class="row">
      <StateFilter
        states={STATES}
        chosen={state === ALL ? "" : state || "held"}
        choose={(chosen) => choose({ ...filters, state: chosen || ALL })}
      />
      {resource !== "" && (
        <button type="button" class="button" onClick={() => choose({ ...filters, resource: "" })}>
          Resource {resource} {ICONS.no}
        </button>
      )}
    </search>
  );
}

function choose(filters: HoldFilterValues): void {
  navigate(filteredAddress("/holds", filters), "replace");
}

function HoldTable({ rows }: { readonly rows: readonly HoldJson[] }): JSX.Element {
  if (rows.length === 0)
    return (
      <Empty icon="holds" title="No holds">
        <p>No hold is in this state.</p>
      </Empty>
    );
  return (
    <table class="table is-stacking">
      <thead>
        <tr>
          <th scope="col">Resource</th>
          <th scope="col">State</th>
          <th scope="col">Requester</th>
          <th scope="col" class="is-number">
            Units
          </th>
          <th scope="col" class="is-number">
            Placed
          </th>
          <th scope="col" class="is-number">
            Time left
          </th>
        </tr>
      </thead>
      <tbody>
        {soonestFirst(rows).map((hold) => (
          <HoldRow key={hold.id} hold={hold} />
        ))}
      </tbody>
    </table>
  );
}

function soonestFirst(rows: readonly HoldJson[]): readonly HoldJson[] {
  return [...rows].sort((a, b) => a.expiresAt - b.expiresAt);
}

function HoldRow({ hold }: { readonly hold: HoldJson }): JSX.Element {
  useNow();
  const isHeld = hold.state === "held" && !hold.isElapsed;
  const left = hold.expiresAt - serverNow();
  const share = Math.max(0, Math.min(1, left / Math.max(1, hold.expiresAt - hold.placedAt)));
  return (
    <tr>
      <td data-name="Resource" title={hold.resource}>
        {hold.resource}
      </td>
      <td data-name="State">
        <Badge state={hold.state === "held" && hold.isElapsed ? "elapsed" : hold.state} />
      </td>
      <td data-name="Requester" title={hold.requester}>
        {hold.requester}
      </td>
      <td data-name="Units" class="is-number">
        {hold.units}
      </td>
      <td data-name="Placed" class="is-number">
        <Age at={hold.placedAt} /> ago
      </td>
      <td data-name="Time left" class={isHeld ? "is-number" : "is-number is-blank"}>
        {isHeld ? (
          <span class="left">
            <Countdown until={Date.now() + left} over="over" />
            <span class="meter is-thin" aria-hidden="true">
              <span style={{ width: `${share * 100}%` }} />
            </span>
          </span>
        ) : (
          "–"
        )}
      </td>
    </tr>
  );
}
