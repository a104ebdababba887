/** How much of each resource is taken: a card for each of a few resources, and a table of many. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ResourceJson } from "../../src/api/api-json.ts";
import { numberWords, plural } from "../formats.ts";
import { filteredAddress } from "../navigation.ts";
import { Badge } from "./badge.tsx";

/** More than this are shown as a table. */
const MOST_CARDS = 12;
/** The table shows so many rows at first, so that the holds below it stay in reach. */
const FIRST_ROWS = 10;

export function ResourceBoard({ rows }: { readonly rows: readonly ResourceJson[] }): JSX.Element {
  if (rows.length > MOST_CARDS) return <ResourceTable rows={rows} />;
  return (
    <section class="board" aria-label="Resources">
      {rows.map((resource) => (
        <ResourceCard key={resource.name} resource={resource} />
      ))}
    </section>
  );
}

function ResourceCard({ resource }: { readonly resource: ResourceJson }): JSX.Element {
  const { name, capacity, taken, free, state } = resource;
  return (
    <div class="card resource">
      <div class="card-head">
        <h2 class="resource-name" title={name}>
          <a href={holdsAddress(resource)}>{name}</a>
        </h2>
        {state !== "open" && <Badge state={state} />}
      </div>
      <p class="resource-number figure">
        {taken}
        <small> of {capacity} taken</small>
      </p>
      <Meter resource={resource} />
      <p class="muted">{free === 0 ? "No unit is free" : `${plural(free, "unit")} free`}</p>
    </div>
  );
}

function ResourceTable({ rows }: { readonly rows: readonly ResourceJson[] }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? rows : rows.slice(0, FIRST_ROWS);
  return (
    <section class="card table-box" aria-label="Resources">
      <table class="table is-stacking is-tight">
        <thead>
          <tr>
            <th scope="col">Resource</th>
            <th scope="col">State</th>
            <th scope="col" class="is-number">
              Taken
            </th>
            <th scope="col" class="is-number">
              Free
            </th>
            <th scope="col">
              <span class="unseen">Share taken</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((resource) => (
            <ResourceRow key={resource.name} resource={resource} />
          ))}
        </tbody>
      </table>
      {shown.length < rows.length && (
        <div class="more">
          <button type="button" class="button" onClick={() => setWhole(true)}>
            Show all {numberWords(rows.length)}
          </button>
        </div>
      )}
    </section>
  );
}

function ResourceRow({ resource }: { readonly resource: ResourceJson }): JSX.Element {
  const { name, capacity, taken, free, state } = resource;
  return (
    <tr>
      <td data-name="Resource" title={name}>
        <a href={holdsAddress(resource)}>{name}</a>
      </td>
      <td data-name="State">
        {state === "open" && free > 0 ? (
          <span class="muted">open</span>
        ) : (
          <Badge state={state === "open" ? "full" : state} />
        )}
      </td>
      <td data-name="Taken" class="is-number">
        {taken} of {capacity}
      </td>
      <td data-name="Free" class="is-number">
        {free}
      </td>
      <td class="is-meter">
        <Meter resource={resource} />
      </td>
    </tr>
  );
}

function Meter({ resource: { capacity, taken } }: { readonly resource: ResourceJson }): JSX.Element {
  const share = capacity === 0 ? 1 : Math.min(1, taken / capacity);
  return (
    <div class={share >= 1 ? "meter is-full" : "meter"} aria-hidden="true">
      <span style={{ width: `${share * 100}%` }} />
    </div>
  );
}

/** The view of this resource's holds. */
function holdsAddress({ name }: ResourceJson): string {
  return filteredAddress("/holds", { resource: name });
}
