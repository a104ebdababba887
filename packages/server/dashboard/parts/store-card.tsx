/** The report of the doctor: which faults an acknowledged claim survives on this store, and how to survive more. */
import type { JSX } from "preact";
import type { DiagnosisJson } from "../../src/api/api-json.ts";
import { useLoaded } from "../load-state.ts";
import { get } from "../server.ts";
import { ICONS } from "./icons.tsx";
import { Shown } from "./states.tsx";

type FaultName = keyof DiagnosisJson["survives"];

/** In the order of severity. */
const FAULTS: readonly { readonly fault: FaultName; readonly name: string }[] = [
  { fault: "our-crash", name: "Crash of a nevertwice process" },
  { fault: "store-crash", name: "Crash of the store" },
  { fault: "power-loss", name: "Power loss" },
  { fault: "failover", name: "Failover" },
];

const SIGNS = { yes: "yes", no: "no", unknown: "question" } as const;
const EVERY_MS = 30_000;

export function StoreCard(): JSX.Element {
  const loaded = useLoaded(() => get<DiagnosisJson>("/v1/doctor"), "doctor", EVERY_MS);
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
              {FAULTS.map(({ fault, name }) => (
                <Rung key={fault} name={name} finding={diagnosis.survives[fault]} />
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

const RESULTS = { yes: "survived", no: "not survived", unknown: "not known" } as const;

function Rung({
  name,
  finding,
}: {
  readonly name: string;
  readonly finding: DiagnosisJson["survives"][FaultName];
}): JSX.Element {
  const { survives, because, raise } = finding;
  return (
    <li class={`rung is-${survives}`}>
      <span class="rung-sign">{ICONS[SIGNS[survives]]}</span>
      <div>
        <h3>
          {name} <span class="rung-word">{RESULTS[survives]}</span>
        </h3>
        <p>{because}</p>
        {raise !== undefined && raise !== null && <p class="rung-raise">To survive it: {raise}</p>}
      </div>
    </li>
  );
}
