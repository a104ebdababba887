/** The board of holds: what there is of each resource, who holds it, and for how long. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useLoaded, useNow } from "../loading.ts";
import { Badge } from "../parts/badge.tsx";
import { Age, Countdown } from "../parts/countdown.tsx";
import { Head } from "../parts/head.tsx";
import { Empty, Failed, Shown } from "../parts/states.tsx";
import { get, Refusal, serverNow } from "../server.ts";
import type { Hold, Page, Resource } from "../shapes.ts";
import { plural } from "../words.ts";

const EVERY_MS = 3_000;
const STATES = ["held", "confirmed", "released", "expired", ""] as const;

export function HoldsPage(): JSX.Element {
  const [state, setState] = useState<string>("held");
  const resources = useLoaded(
    () => get<Page<Resource>>("/v1/resources", { limit: 100 }),
    "resources",
    EVERY_MS,
  );
  const holds = useLoaded(() => get<Page<Hold>>("/v1/holds", { state, limit: 200 }), state, EVERY_MS);
  const { error } = resources;
  return (
    <div class="page">
      <Head title="Holds">
        Units that are set aside for a while, and become final, free again, or expired.
      </Head>
      {resources.value === undefined && error !== undefined ? (
        <section class="card">
          {error instanceof Refusal && error.code === "not-supported" ? (
            <Empty icon="holds" title="This store keeps no holds">
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

function Board({ resources }: { readonly resources: readonly Resource[] }): JSX.Element | null {
  if (resources.length === 0) return null;
  return (
    <section class="board" aria-label="Resources">
      {resources.map((resource) => (
        <ResourceCard key={resource.name} resource={resource} />
      ))}
    </section>
  );
}

function ResourceCard({ resource }: { readonly resource: Resource }): JSX.Element {
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
      <p class="muted">{free === 0 ? "Nothing is free" : `${plural(free, "unit")} free`}</p>
    </div>
  );
}

function HoldTable({
  rows,
  hasMore,
}: {
  readonly rows: readonly Hold[];
  readonly hasMore: boolean;
}): JSX.Element {
  if (rows.length === 0)
    return (
      <Empty icon="holds" title="Nothing here">
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

function soonestFirst(rows: readonly Hold[]): readonly Hold[] {
  return [...rows].sort((a, b) => a.expiresAt - b.expiresAt);
}

function HoldRow({ hold }: { readonly hold: Hold }): JSX.Element {
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
