/** The inbox of what nobody knows: work that was begun and never finished, to be decided one by one. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useLoaded } from "../loading.ts";
import { DecisionDialog } from "../parts/decision.tsx";
import { Head } from "../parts/head.tsx";
import { KeyTable } from "../parts/key-table.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { type Decision, listKeys } from "../records.ts";
import type { Who } from "../server.ts";
import type { KeyRecord } from "../shapes.ts";

const EVERY_MS = 5_000;

export function UnknownPage({ who }: { readonly who: Who }): JSX.Element {
  const loaded = useLoaded(() => listKeys({ state: "lapsed" }), "lapsed", EVERY_MS);
  const [asked, setAsked] = useState<{ readonly record: KeyRecord; readonly decision: Decision }>();
  const [told, setTold] = useState<string>();
  const canAct = who.roles.includes("operator");
  const actions = (record: KeyRecord) => (
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
      <Head title="Unknown outcomes">
        Attempts that went silent: the work may have happened, or not. Whoever can look at the other side
        decides.
      </Head>
      <div role="status">{told !== undefined && <p class="notice is-good">{told}</p>}</div>
      <section class="card table-box" aria-label="Unknown outcomes">
        <Shown loaded={loaded}>
          {({ rows, next }) =>
            rows.length === 0 ? (
              <Empty icon="yes" title="Nothing is unknown">
                <p>Every attempt has said how it ended, or is still under way.</p>
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
            setTold(text);
            loaded.reload();
          }}
        />
      )}
    </div>
  );
}
