/** What all servers on the store counted over the last 24 hours, by operation and door. */
import type { JSX } from "preact";
import type { FiguresJson } from "../../src/api/api-json.ts";
import type { STOPPED } from "../../src/stopped.ts";
import { numberWords, plural } from "../formats.ts";
import { useLoaded } from "../load-state.ts";
import { get } from "../server.ts";
import { Shown } from "./states.tsx";

const EVERY_MS = 15_000;
/** The most rows of the table. The API has all operations. */
const MAX_ROWS = 10;

/** The parts of "duplicates stopped", whose sum it is. */
export function stoppedWords(count: (name: (typeof STOPPED)[number]) => number): string {
  return [
    plural(count("replay"), "replay"),
    `${numberWords(count("alreadyDone"))} already done`,
    `${numberWords(count("pending"))} pending`,
    plural(count("conflict"), "conflict"),
  ].join(", ");
}

export function DayCard(): JSX.Element {
  const loaded = useLoaded(() => get<FiguresJson>("/v1/figures"), "figures", EVERY_MS);
  return (
    <section class="card" aria-labelledby="day">
      <Shown loaded={loaded}>
        {(figures) => (
          <>
            <div class="card-head">
              <h2 id="day">Last 24 hours, all servers</h2>
              {!figures.isComplete && <span class="muted">Older hours are still being read</span>}
            </div>
            <p>
              {plural(figures.total.first, "first run")}; {plural(figures.total.stopped, "duplicate")}{" "}
              stopped: {stoppedWords((name) => figures.total[name])}.
            </p>
            {figures.operations.length > 0 && <Operations operations={figures.operations} />}
          </>
        )}
      </Shown>
    </section>
  );
}

const COLUMNS = [
  ["first", "First runs"],
  ["stopped", "Stopped"],
  ["replay", "Replays"],
  ["alreadyDone", "Already done"],
  ["pending", "Pending"],
  ["conflict", "Conflicts"],
  ["failure", "Failures"],
] as const;

function Operations({ operations }: Pick<FiguresJson, "operations">): JSX.Element {
  const more = operations.length - MAX_ROWS;
  return (
    <>
      <table class="table is-stacking is-tight">
        <thead>
          <tr>
            <th scope="col">Operation</th>
            <th scope="col">Door</th>
            {COLUMNS.map(([name, title]) => (
              <th key={name} scope="col" class="is-number">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {operations.slice(0, MAX_ROWS).map((row) => (
            <tr key={JSON.stringify([row.namespace, row.door, row.operation])}>
              <td data-name="Operation" class="is-long">
                {row.operation}
              </td>
              <td data-name="Door">{row.door}</td>
              {COLUMNS.map(([name, title]) => (
                <td key={name} data-name={title} class="is-number">
                  {numberWords(row[name])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {more > 0 && <p class="muted">{plural(more, "more operation")} in the API.</p>}
    </>
  );
}
