/** The audit page: one verdict, every invariant under it, and how many records were read. It runs when a user starts it. */

import type { AuditPageRow, AuditPage as AuditReportJson, AuditStatus } from "nevertwice/reservations";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { numberWords, plural } from "../formats.ts";
import { Badge } from "../parts/badge.tsx";
import { Head } from "../parts/head.tsx";
import { ICONS } from "../parts/icons.tsx";
import { Empty, Failed, Loading } from "../parts/states.tsx";
import type { PageProps } from "../routes.ts";
import { ApiError, get } from "../server.ts";

type AuditState =
  | { readonly status: "unasked" | "running" }
  | { readonly status: "failed"; readonly error: Error }
  | { readonly status: "done"; readonly report: AuditReportJson };

export function Page({ title }: PageProps): JSX.Element {
  const [state, setState] = useState<AuditState>({ status: "unasked" });

  function run(): void {
    setState({ status: "running" });
    get<{ readonly page: AuditReportJson }>("/v1/audit").then(
      ({ page }) => setState({ status: "done", report: page }),
      (error: Error) => setState({ status: "failed", error }),
    );
  }

  return (
    <div class="page">
      <Head
        title={title}
        actions={
          <>
            {state.status === "done" && (
              <a class="button" href="/v1/audit?format=text" download="audit.txt">
                Report as text
              </a>
            )}
            <button type="button" class="button is-main" disabled={state.status === "running"} onClick={run}>
              {ICONS.audit} {state.status === "done" ? "Run again" : "Run the audit"}
            </button>
          </>
        }
      >
        Verifies every guarantee of holds from the stored records alone.
      </Head>
      <div aria-live="polite">
        <Result state={state} retry={run} />
      </div>
    </div>
  );
}

function Result({ state, retry }: { readonly state: AuditState; readonly retry: () => void }): JSX.Element {
  if (state.status === "done") return <Verified report={state.report} />;
  return (
    <section class="card">
      {state.status === "running" && <Loading />}
      {state.status === "failed" && <NoAudit error={state.error} retry={retry} />}
      {state.status === "unasked" && (
        <Empty icon="audit" title="Not run yet">
          <p>The audit reads every hold, event and key of the namespace. It changes nothing.</p>
        </Empty>
      )}
    </section>
  );
}

function NoAudit({ error, retry }: { readonly error: Error; readonly retry: () => void }): JSX.Element {
  if (!(error instanceof ApiError) || error.code !== "not-supported")
    return <Failed error={error} retry={retry} />;
  return (
    <Empty icon="audit" title="There are no holds to audit">
      <p>{error.message}</p>
    </Empty>
  );
}

const VERDICTS: Readonly<Record<AuditStatus, { readonly title: string; readonly tone: string }>> = {
  holds: { title: "Every invariant holds", tone: "good" },
  broken: { title: "An invariant is broken", tone: "bad" },
  "nothing-to-see": { title: "There is nothing to verify yet", tone: "plain" },
};

function Verified({ report }: { readonly report: AuditReportJson }): JSX.Element {
  const { title, tone } = VERDICTS[report.status];
  const broken = report.sections
    .flatMap(({ rows }) => rows)
    .filter(({ status }) => status === "broken").length;
  return (
    <div class="stack">
      <section class={`verdict is-${tone}`} aria-label="Verdict">
        <span class="verdict-sign">{report.status === "broken" ? ICONS.no : ICONS.yes}</span>
        <div>
          <h2>{broken > 1 ? `${broken} invariants are broken` : title}</h2>
          <p>{report.title}</p>
        </div>
        <dl class="verdict-counts">
          {report.counts.map(({ name, count }) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{numberWords(count)}</dd>
            </div>
          ))}
        </dl>
      </section>
      {report.sections.map((section) => (
        <section key={section.title} class="card" aria-label={section.title}>
          <div class="card-head">
            <h2>{section.title}</h2>
            <Badge state={statusText(section.status)} />
          </div>
          <ul class="invariants">
            {section.rows.map((row) => (
              <Invariant key={row.id} row={row} />
            ))}
          </ul>
        </section>
      ))}
      {report.notes.length > 0 && (
        <ul class="notes">
          {report.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Invariant({ row }: { readonly row: AuditPageRow }): JSX.Element {
  return (
    <li class={`invariant is-${row.status}`}>
      <span class="invariant-id is-code">{row.id}</span>
      <div>
        <p class="invariant-name">{row.name}</p>
        <p class="muted">{row.shows}</p>
        {row.lines.map((line) => (
          <p key={line} class="invariant-line is-code">
            {line}
          </p>
        ))}
      </div>
      <span class="invariant-end">
        <Badge state={statusText(row.status)} />
        <span class="muted figure">{plural(row.looked, "record")}</span>
      </span>
    </li>
  );
}

function statusText(status: AuditStatus): string {
  return status === "nothing-to-see" ? "nothing to see" : status;
}
