/** One key: how it stands, what became of it, and what an operator may do about it. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { useLoaded } from "../loading.ts";
import { Badge } from "../parts/badge.tsx";
import { Age, Countdown } from "../parts/countdown.tsx";
import { DecisionDialog, type Verb } from "../parts/decision.tsx";
import { Head } from "../parts/head.tsx";
import { ICONS } from "../parts/icons.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { Timeline } from "../parts/timeline.tsx";
import { type KeyLife, readKey } from "../records.ts";
import type { Who } from "../server.ts";
import type { KeyRecord, Outcome } from "../shapes.ts";
import { momentWords } from "../words.ts";

const EVERY_MS = 3_000;

export function KeyPage({ id, who }: { readonly id: string; readonly who: Who }): JSX.Element {
  const loaded = useLoaded(() => readKey(id), id, EVERY_MS);
  const [told, setTold] = useState<string>();
  const [isForgotten, setForgotten] = useState(false);
  const record = loaded.value?.record;
  if (isForgotten) return <Forgotten />;
  return (
    <div class="page">
      <a class="back" href="/keys">
        {ICONS.back} Keys
      </a>
      <Head
        title={record === undefined ? "Key" : nameOf(record)}
        isCode={record !== undefined}
        actions={
          record !== undefined && (
            <>
              {record.key !== null && <Copy text={record.key} />}
              <Badge state={record.state} />
            </>
          )
        }
      >
        Its life, from its record and from what this server saw.
      </Head>
      <div role="status">{told !== undefined && <p class="notice is-good">{told}</p>}</div>
      <Shown loaded={loaded}>
        {(life) => (
          <Life
            life={life}
            at={loaded.at}
            canAct={who.roles.includes("operator")}
            onDone={(text, verb) => {
              setTold(text);
              setForgotten(verb === "forget");
              loaded.reload();
            }}
          />
        )}
      </Shown>
    </div>
  );
}

function Forgotten(): JSX.Element {
  return (
    <div class="page">
      <Head title="Key" />
      <section class="card">
        <Empty icon="yes" title="The key was forgotten.">
          <p>If its work was done, a mark without its name stays until its retention ends.</p>
          <a class="button" href="/keys">
            All keys
          </a>
        </Empty>
      </section>
    </div>
  );
}

function Life(props: {
  readonly life: KeyLife;
  readonly at: number;
  readonly canAct: boolean;
  readonly onDone: (told: string, verb: Verb) => void;
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
        <OutcomeCard record={record} isOperator={props.canAct} />
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

function nameOf({ key, keyHash }: KeyRecord): string {
  return key ?? `forgotten ${keyHash}`;
}

function Facts({ record, at }: { readonly record: KeyRecord; readonly at: number }): JSX.Element {
  const { state, completedAt, keptUntil } = record;
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
      {completedAt !== null && <Fact name="Completed">{momentWords(completedAt)}</Fact>}
      <Fact name="Kept until">
        {keptUntil === null || (record.held && state === "lapsed") ? "decided" : momentWords(keptUntil)}
      </Fact>
      <Fact name="Fence">
        <span class="is-code">{record.fence}</span>
      </Fact>
      <Fact name="Hash in logs">
        <span class="is-code">{record.keyHash}</span>
      </Fact>
    </dl>
  );
}

function Fact({
  name,
  children,
}: {
  readonly name: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Actions({
  record,
  onDone,
}: {
  readonly record: KeyRecord;
  readonly onDone: (told: string, verb: Verb) => void;
}): JSX.Element {
  const [asked, setAsked] = useState<Verb>();
  const { state } = record;
  if (record.key === null) return <p class="muted">It was forgotten: only its mark is left.</p>;
  if (state === "pending")
    return <p class="muted">Its work is under way. It can be decided about when its lease has ended.</p>;
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
          onDone={(told) => onDone(told, asked)}
          onClose={() => setAsked(undefined)}
        />
      )}
    </div>
  );
}

function OutcomeCard({
  record,
  isOperator,
}: {
  readonly record: KeyRecord;
  readonly isOperator: boolean;
}): JSX.Element | null {
  if (record.state !== "completed") return null;
  return (
    <section class="card" aria-labelledby="outcome">
      <div class="card-head">
        <h2 id="outcome">Outcome</h2>
        {record.outcome !== undefined && <span class="muted">{OUTCOME_NAMES[record.outcome.kind]}</span>}
      </div>
      {record.outcome === undefined ? (
        <p class="muted">{isOperator ? "Nothing was kept." : "Outcomes are shown to operators."}</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
        <pre class="code" tabIndex={0}>
          {outcomeText(record.outcome)}
        </pre>
      )}
    </section>
  );
}

const OUTCOME_NAMES: Readonly<Record<Outcome["kind"], string>> = {
  value: "answered",
  thrown: "failed",
  "not-kept": "done, not kept",
};

function outcomeText(outcome: Outcome): string {
  if (outcome.kind === "not-kept") return outcome.reason;
  return JSON.stringify(outcome.kind === "value" ? outcome.value : outcome.error, null, 2) ?? "null";
}

function Copy({ text }: { readonly text: string }): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  return (
    <button
      type="button"
      class="button is-quiet"
      aria-label={isCopied ? "Copied" : "Copy the key"}
      title="Copy the key"
      onClick={() => void navigator.clipboard?.writeText(text).then(() => setCopied(true))}
    >
      {isCopied ? ICONS.yes : ICONS.copy}
    </button>
  );
}
