/** The page of holds: how much of each resource is taken, by which requesters, and for how long. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { HoldJson, PageJson, ResourceJson } from "../../src/api/api-json.ts";
import { plural } from "../formats.ts";
import { useLoaded, useNow } from "../load-state.ts";
import { Badge } from "../parts/badge.tsx";
import { Age, Countdown } from "../parts/countdown.tsx";
import { Head } from "../parts/head.tsx";
import { Empty, Failed, Shown } from "../parts/states.tsx";
import type { PageProps } from "../routes.ts";
import { ApiError, get, serverNow } from "../server.ts";

const EVERY_MS = 3_000;
const STATES = ["held", "confirmed", "released", "expired", ""] as const;

export function Page({ title }: PageProps): JSX.Element {
  const [state, setState] = useState<string>("held");
  const resources = useLoaded(
    () => get<PageJson<ResourceJson>>("/v1/resources", { limit: 100 }),
    "resources",
    EVERY_MS,
  );
  const holds = useLoaded(() => get<PageJson<HoldJson>>("/v1/holds", { state, limit: 200 }), state, EVERY_MS);
  const { error } = resources;
  return (
    <div class="page">
      <Head title={title}>
        Units of a resource that are reserved for a limited time, until they are confirmed, released or
        expired.
      </Head>
      {resources.value === undefined && error !== undefined ? (
        <section class="card">
          {error instanceof ApiError && error.code === "not-supported" ? (
            <Empty icon="holds" title="This store cannot keep holds">
              <p>{error.message}</p>
            </Empty>
          ) : (
            <Failed error={error} retry={resources.reload} />
          )}
        </section>
      ) : (
        <>
          <Shown loaded={resources}>{({ rows }) => <Board resources={rows} />}</Shown>
          <fieldset class="choices">
            <legend class="unseen">State</legend>
            {STATES.map((choice) => (
              <button
                key={choice}
                type="button"
                aria-pressed={state === choice}
                onClick={() => setState(choice)}
              >
                {choice === "" ? "All" : choice.charAt(0).toUpperCase() + choice.slice(1)}
              </button>
            ))}
          </fieldset>
          <section class="card table-box" aria-label="Holds">
            <Shown loaded={holds}>
              {({ rows, next }) => <HoldTable rows={rows} hasMore={Boolean(next)} />}
            </Shown>
          </section>
        </>
      )}
    </div>
  );
}

function Board({ resources }: { readonly resources: readonly ResourceJson[] }): JSX.Element | null {
  if (resources.length === 0) return null;
  return (
    <section class="board" aria-label="Resources">
      {resources.map((resource) => (
        <ResourceCard key={resource.name} resource={resource} />
      ))}
    </section>
  );
}

function ResourceCard({ resource }: { readonly resource: ResourceJson }): JSX.Element {
  const { name, capacity, taken, free, state } = resource;
  const share = capacity === 0 ? 1 : Math.min(1, taken / capacity);
  return (
    <div class="card resource">
      <div class="card-head">
        <h2 class="resource-name" title={name}>
          {name}
        </h2>
        {state !== "open" && <Badge state={state} />}
      </div>
      <p class="resource-number figure">
        {taken}
        <small> of {capacity} taken</small>
      </p>
      <div class={share >= 1 ? "meter is-full" : "meter"} aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </div>
      <p class="muted">{free === 0 ? "No unit is free" : `${plural(free, "unit")} free`}</p>
    </div>
  );
}

function HoldTable({
  rows,
  hasMore,
}: {
  readonly rows: readonly HoldJson[];
  readonly hasMore: boolean;
}): JSX.Element {
  if (rows.length === 0)
    return (
      <Empty icon="holds" title="No holds">
        <p>No hold is in this state.</p>
      </Empty>
    );
  return (
    <>
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
      {hasMore && <p class="more muted">These are the first {rows.length}.</p>}
    </>
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
