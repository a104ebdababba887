/** The doctor's row: which faults an acknowledged claim survives on this store, and what would make it survive more. */
import type { JSX } from "preact";
import { useLoaded } from "../loading.ts";
import { get } from "../server.ts";
import { type Diagnosis, FAULTS, type Finding } from "../shapes.ts";
import { ICONS } from "./icons.tsx";
import { Shown } from "./states.tsx";

const FAULT_NAMES: Readonly<Record<(typeof FAULTS)[number], string>> = {
  "our-crash": "A crash of ours",
  "store-crash": "A crash of the store",
  "power-loss": "Power loss",
  failover: "Failover",
};

const SIGNS = { yes: "yes", no: "no", unknown: "question" } as const;
const EVERY_MS = 30_000;

export function StoreCard(): JSX.Element {
  const loaded = useLoaded(() => get<Diagnosis>("/v1/doctor"), "doctor", EVERY_MS);
  return (
    <section class="card" aria-labelledby="store">
      <Shown loaded={loaded}>
        {(diagnosis) => (
          <>
            <div class="card-head">
              <h2 id="store">Store</h2>
              <span class="muted">{diagnosis.title}</span>
            </div>
            {typeof diagnosis.refused === "string" && <p class="notice is-bad">{diagnosis.refused}</p>}
            <ol class="ladder">
              {FAULTS.map((fault) => (
                <Rung key={fault} name={FAULT_NAMES[fault]} finding={diagnosis.survives[fault]} />
              ))}
            </ol>
            {diagnosis.notes.length > 0 && (
              <ul class="notes">
                {diagnosis.notes.map((note) => (
                  <li key={note}>{note}</li>
                ))}
              </ul>
            )}
          </>
        )}
      </Shown>
    </section>
  );
}

const SAID = { yes: "survived", no: "not survived", unknown: "not known" } as const;

function Rung({ name, finding }: { readonly name: string; readonly finding: Finding }): JSX.Element {
  const { survives, because, raise } = finding;
  return (
    <li class={`rung is-${survives}`}>
      <span class="rung-sign">{ICONS[SIGNS[survives]]}</span>
      <div>
        <h3>
          {name} <span class="rung-word">{SAID[survives]}</span>
        </h3>
        <p>{because}</p>
        {raise !== undefined && raise !== null && <p class="rung-raise">To survive it: {raise}</p>}
      </div>
    </li>
  );
}
