/** A table of keys. On a narrow screen each row becomes a card. */
import type { ComponentChildren, JSX } from "preact";
import type { KeyJson } from "../../src/api/api-json.ts";
import { filteredAddress } from "../navigation.ts";
import { Badge } from "./badge.tsx";
import { Age, Countdown } from "./countdown.tsx";

export function KeyTable(props: {
  readonly rows: readonly KeyJson[];
  /** When the rows arrived, by the browser's clock. Leases count down from that moment. */
  readonly at: number;
  /** All of them have lapsed: how long each waits is shown instead of its lease. */
  readonly areWaiting?: boolean;
  /** The buttons of a row. */
  readonly actions?: (row: KeyJson) => ComponentChildren;
}): JSX.Element {
  return (
    <table class="table is-stacking">
      <thead>
        <tr>
          <th scope="col">Key</th>
          <th scope="col">State</th>
          <th scope="col">Operation</th>
          <th scope="col">Scope</th>
          <th scope="col" class="is-number">
            Attempts
          </th>
          <th scope="col" class="is-number">
            {props.areWaiting === true ? "Waiting" : "Lease left"}
          </th>
          <th scope="col" class="is-number">
            Age
          </th>
          {props.actions !== undefined && (
            <th scope="col">
              <span class="unseen">Actions</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {props.rows.map((row) => (
          <tr key={row.id}>
            <td data-name="Key" title={row.key ?? undefined}>
              <a class="is-code" href={`/keys/${row.id}`}>
                {row.key ?? `forgotten ${row.keyHash}`}
              </a>
            </td>
            <td data-name="State">
              <Badge state={row.state} />
            </td>
            <td data-name="Operation" title={row.operation ?? undefined}>
              <FilterLink name="operation" value={row.operation} />
            </td>
            <td data-name="Scope" title={row.scope ?? undefined}>
              <FilterLink name="scope" value={row.scope} />
            </td>
            <td data-name="Attempts" class="is-number">
              {row.number}
            </td>
            {props.areWaiting === true ? (
              <td data-name="Waiting" class="is-number">
                {row.lapsedAt === null ? "–" : <Age at={row.lapsedAt} />}
              </td>
            ) : (
              <td data-name="Lease left" class={row.state === "pending" ? "is-number" : "is-number is-blank"}>
                {row.state === "pending" ? (
                  <Countdown until={props.at + row.leaseLeftMs} over="lapsed" />
                ) : (
                  "–"
                )}
              </td>
            )}
            <td data-name="Age" class="is-number">
              <Age at={row.claimedAt} />
            </td>
            {props.actions !== undefined && <td class="table-actions">{props.actions(row)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Leads to the list of all keys with this value. */
function FilterLink(props: { readonly name: string; readonly value: string | null }): JSX.Element {
  const { name, value } = props;
  if (!value) return <>–</>;
  return (
    <a class="is-filter" href={filteredAddress("/keys", { [name]: value })}>
      {value}
    </a>
  );
}
