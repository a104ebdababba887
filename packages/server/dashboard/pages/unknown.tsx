/** The list of keys whose outcome is unknown: their work was started and never finished. An operator decides each. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { KeyJson } from "../../src/api/api-json.ts";
import { listKeys, type OperatorDecision } from "../key-actions.ts";
import { useLoaded } from "../load-state.ts";
import { DecisionDialog } from "../parts/decision.tsx";
import { Head } from "../parts/head.tsx";
import { KeyTable } from "../parts/key-table.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import type { PageProps } from "../routes.ts";

const EVERY_MS = 5_000;

export function Page({ title, who }: PageProps): JSX.Element {
  const loaded = useLoaded(() => listKeys({ state: "lapsed" }), "lapsed", EVERY_MS);
  const [asked, setAsked] = useState<{ readonly record: KeyJson; readonly decision: OperatorDecision }>();
  const [notice, setNotice] = useState<string>();
  const canAct = who.roles.includes("operator");
  const actions = (record: KeyJson) => (
    <div class="row">
      <button type="button" class="button" onClick={() => setAsked({ record, decision: "done" })}>
        Done…
      </button>
      <button type="button" class="button" onClick={() => setAsked({ record, decision: "not-done" })}>
        Not done…
      </button>
    </div>
  );
  return (
    <div class="page">
      <Head title={title}>
        Attempts whose lease ended before they reported an outcome: the work may have happened, or not. Check
        the system that does the work, then decide.
      </Head>
      <div role="status">{notice !== undefined && <p class="notice is-good">{notice}</p>}</div>
      <section class="card table-box" aria-label="Unknown outcomes">
        <Shown loaded={loaded}>
          {({ rows, next }) =>
            rows.length === 0 ? (
              <Empty icon="yes" title="No unknown outcomes">
                <p>Every attempt has reported its outcome or is still running.</p>
              </Empty>
            ) : (
              <>
                <KeyTable rows={rows} at={loaded.at} {...(canAct && { actions })} />
                {next !== undefined && (
                  <p class="more muted">These are the first {rows.length}. Decide some, and more appear.</p>
                )}
              </>
            )
          }
        </Shown>
      </section>
      {asked !== undefined && (
        <DecisionDialog
          record={asked.record}
          verb="resolve"
          decision={asked.decision}
          onClose={() => setAsked(undefined)}
          onDone={(text) => {
            setNotice(text);
            loaded.reload();
          }}
        />
      )}
    </div>
  );
}
