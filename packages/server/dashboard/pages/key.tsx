/** The page of one key: its record, its outcome, its history, and the actions of an operator. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { KeyDetailsJson, KeyJson, OutcomeJson } from "../../src/api/api-json.ts";
import { momentWords } from "../formats.ts";
import { readKey } from "../key-actions.ts";
import { useLoaded } from "../load-state.ts";
import { Badge } from "../parts/badge.tsx";
import { Copy } from "../parts/copy.tsx";
import { Age, Countdown } from "../parts/countdown.tsx";
import { DecisionDialog, type Verb } from "../parts/decision.tsx";
import { DerivedKeys } from "../parts/derived-keys.tsx";
import { Fact } from "../parts/fact.tsx";
import { Head } from "../parts/head.tsx";
import { ICONS } from "../parts/icons.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { StoredResponse } from "../parts/stored-response.tsx";
import { Timeline } from "../parts/timeline.tsx";
import type { PageProps } from "../routes.ts";

const EVERY_MS = 3_000;

export function Page({ title, params, who }: PageProps): JSX.Element {
  const { id = "" } = params;
  const loaded = useLoaded(() => readKey(id), id, EVERY_MS);
  const [notice, setNotice] = useState<string>();
  const [isForgotten, setForgotten] = useState(false);
  const record = loaded.value?.record;
  if (isForgotten) return <Forgotten title={title} />;
  return (
    <div class="page">
      <a class="back" href="/keys">
        {ICONS.back} Keys
      </a>
      <Head
        title={record === undefined ? title : keyName(record)}
        isCode={record !== undefined}
        actions={
          record !== undefined && (
            <>
              {record.key !== null && <Copy text={record.key} what="the key" />}
              <Badge state={record.state} />
            </>
          )
        }
      >
        The stored record, and the events that this server observed.
      </Head>
      <div role="status">{notice !== undefined && <p class="notice is-good">{notice}</p>}</div>
      <Shown loaded={loaded}>
        {(life) => (
          <Life
            life={life}
            at={loaded.at}
            canAct={who.roles.includes("operator")}
            onDone={(text, verb) => {
              setNotice(text);
              setForgotten(verb === "forget");
              loaded.reload();
            }}
          />
        )}
      </Shown>
    </div>
  );
}

function Forgotten({ title }: { readonly title: string }): JSX.Element {
  return (
    <div class="page">
      <Head title={title} />
      <section class="card">
        <Empty icon="yes" title="The key was forgotten.">
          <p>If its work was done, a mark without its key stays until its retention ends.</p>
          <a class="button" href="/keys">
            All keys
          </a>
        </Empty>
      </section>
    </div>
  );
}

function Life(props: {
  readonly life: KeyDetailsJson;
  readonly at: number;
  readonly canAct: boolean;
  readonly onDone: (notice: string, verb: Verb) => void;
}): JSX.Element {
  const { record, events } = props.life;
  return (
    <div class="split is-wide-left">
      <div class="stack">
        <section class="card" aria-labelledby="facts">
          <div class="card-head">
            <h2 id="facts">Record</h2>
          </div>
          <Facts record={record} at={props.at} />
          {props.canAct && <Actions record={record} onDone={props.onDone} />}
        </section>
        <OutcomeCard life={props.life} isOperator={props.canAct} />
        <StepsCard record={record} />
        {props.canAct && record.key !== null && <DerivedKeys record={record} />}
      </div>
      <section class="card" aria-labelledby="life">
        <div class="card-head">
          <h2 id="life">Timeline</h2>
        </div>
        <Timeline record={record} events={events} />
      </section>
    </div>
  );
}

function keyName({ key, keyHash }: KeyJson): string {
  return key ?? `forgotten ${keyHash}`;
}

function Facts({ record, at }: { readonly record: KeyJson; readonly at: number }): JSX.Element {
  const { state, completedAt, lapsedAt, keptUntil } = record;
  return (
    <dl class="facts">
      <Fact name="Operation">{record.operation ?? "–"}</Fact>
      <Fact name="Scope">{record.scope || "–"}</Fact>
      <Fact name="Attempts">{record.number}</Fact>
      <Fact name="Claimed">
        <Age at={record.claimedAt} /> ago
      </Fact>
      {state === "pending" && (
        <Fact name="Lease left">
          <Countdown until={at + record.leaseLeftMs} over="lapsed" label="Lease left" />
        </Fact>
      )}
      {state === "lapsed" && lapsedAt !== null && (
        <Fact name="Lapsed">
          <Age at={lapsedAt} /> ago
        </Fact>
      )}
      {completedAt !== null && <Fact name="Completed">{momentWords(completedAt)}</Fact>}
      <Fact name="Kept until">
        {keptUntil === null || (record.held && state === "lapsed") ? "a decision" : momentWords(keptUntil)}
      </Fact>
      <Fact name="Fence">
        <span class="is-code">{record.fence}</span>
      </Fact>
      <Fact name="Hash in logs">
        <span class="is-code">{record.keyHash}</span>
      </Fact>
      {record.fingerprint !== undefined && (
        <Fact name="Fingerprint" isWide>
          <span class="is-code">{record.fingerprint}</span>
        </Fact>
      )}
    </dl>
  );
}

function Actions({
  record,
  onDone,
}: {
  readonly record: KeyJson;
  readonly onDone: (notice: string, verb: Verb) => void;
}): JSX.Element {
  const [asked, setAsked] = useState<Verb>();
  const { state } = record;
  if (record.key === null)
    return <p class="muted">This key was forgotten. Only a mark that its work is done is left.</p>;
  if (state === "pending")
    return <p class="muted">The work is running. You can decide about this key once its lease has ended.</p>;
  return (
    <div class="row">
      {state === "lapsed" && (
        <button type="button" class="button is-main" onClick={() => setAsked("resolve")}>
          Resolve…
        </button>
      )}
      {state !== "released" && (
        <button type="button" class="button" onClick={() => setAsked("release")}>
          Release…
        </button>
      )}
      <button type="button" class="button" onClick={() => setAsked("forget")}>
        Forget…
      </button>
      {asked !== undefined && (
        <DecisionDialog
          record={record}
          verb={asked}
          onDone={(notice) => onDone(notice, asked)}
          onClose={() => setAsked(undefined)}
        />
      )}
    </div>
  );
}

function OutcomeCard({
  life: { record, response },
  isOperator,
}: {
  readonly life: KeyDetailsJson;
  readonly isOperator: boolean;
}): JSX.Element | null {
  if (record.state !== "completed") return null;
  return (
    <section class="card" aria-labelledby="outcome">
      <div class="card-head">
        <h2 id="outcome">Outcome</h2>
        {record.outcome !== undefined && (
          <span class="muted">
            {response === undefined ? OUTCOME_NAMES[record.outcome.kind] : "HTTP response"}
          </span>
        )}
      </div>
      {response !== undefined ? (
        <StoredResponse response={response} />
      ) : record.outcome === undefined ? (
        <p class="muted">{isOperator ? "No outcome was stored." : "Only operators see outcomes."}</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
        <pre class="code" tabIndex={0}>
          {outcomeText(record.outcome)}
        </pre>
      )}
    </section>
  );
}

/** How far the work came, and what its finished steps returned. */
function StepsCard({ record }: { readonly record: KeyJson }): JSX.Element | null {
  const { steps } = record;
  if (steps === undefined) return null;
  return (
    <section class="card" aria-labelledby="steps">
      <div class="card-head">
        <h2 id="steps">Finished steps</h2>
        <span class="muted">{steps.length}</span>
      </div>
      <dl class="facts">
        {steps.map(({ name, keptAt, outcome }) => (
          <Fact key={name} name={name}>
            {momentWords(keptAt)}
            {outcome !== undefined && <span class="is-code"> {outcomeText(outcome)}</span>}
          </Fact>
        ))}
      </dl>
    </section>
  );
}

const OUTCOME_NAMES: Readonly<Record<OutcomeJson["kind"], string>> = {
  value: "value",
  thrown: "failed",
  "not-kept": "done, not stored",
};

function outcomeText(outcome: OutcomeJson): string {
  if (outcome.kind === "not-kept") return outcome.reason;
  return JSON.stringify(outcome.kind === "value" ? outcome.value : outcome.error, null, 2) ?? "null";
}
