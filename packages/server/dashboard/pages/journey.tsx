/** The journey of one message through a network: its way in the graph, and each step with its time. */
import type { JSX } from "preact";
import type { JourneyJson, NetworkJson } from "../../src/api/api-json.ts";
import { momentWords, numberWords, tookWords } from "../formats.ts";
import { useFeed } from "../live.ts";
import { useLoaded } from "../load-state.ts";
import { filteredAddress } from "../navigation.ts";
import { Badge } from "../parts/badge.tsx";
import { Fact } from "../parts/fact.tsx";
import { Head } from "../parts/head.tsx";
import { Shown } from "../parts/states.tsx";
import { networkAddress, networkId, networkRoute } from "../pipelines/network-address.ts";
import { NetworkGraph } from "../pipelines/network-graph.tsx";
import type { PageProps } from "../routes.ts";
import { get } from "../server.ts";

const EVERY_MS = 2_000;

const TONES: Readonly<Record<string, string>> = {
  completed: "good",
  settled: "good",
  recovered: "good",
  duplicate: "plain",
  dropped: "plain",
  retrying: "warn",
  later: "warn",
  "back-pressure": "warn",
  "dead-lettered": "warn",
  failed: "bad",
  "retry-lost": "bad",
  "dispatch-failed": "bad",
  "not-acknowledged": "bad",
};

export function Page({ title, params }: PageProps): JSX.Element {
  const id = networkId(params.network);
  const number = params.number ?? "";
  const journey = useLoaded(
    () => get<JourneyJson>(`${networkRoute(id)}/journeys/${encodeURIComponent(number)}`),
    `${id} ${number}`,
    EVERY_MS,
  );
  const networks = useLoaded(() => get<{ readonly networks: readonly NetworkJson[] }>("/v1/pipelines"), id);
  const network = networks.value?.networks.find((one) => one.id === id);
  const { snapshot } = useFeed();
  return (
    <div class="page">
      <Head title={title}>
        <a href={networkAddress(id)}>{id}</a>
      </Head>
      <Shown loaded={journey}>
        {(found) => (
          <>
            <section class="card" aria-label="Message">
              <dl class="facts">
                <Fact name="Message">
                  <span class="is-code">{found.trace}</span>
                </Fact>
                <Fact name="Ending">
                  <Badge state={found.ending} />{" "}
                  {found.reason !== undefined && <span class="muted">{found.reason}</span>}
                </Fact>
                <Fact name="Entered">{momentWords(found.startedAt)}</Fact>
                <Fact name="Took">
                  {found.ending === "running" ? "–" : sinceWords(found.lastAt - found.startedAt)}
                </Fact>
              </dl>
            </section>
            {network !== undefined && (
              <section class="card" aria-label="Way">
                <NetworkGraph
                  network={network}
                  figures={snapshot?.pipelines.find((one) => one.id === id)}
                  way={new Set(found.nodes)}
                  linkTo={(node) => filteredAddress(networkAddress(id), { node })}
                />
              </section>
            )}
            <Steps journey={found} />
          </>
        )}
      </Shown>
    </div>
  );
}

function Steps({ journey }: { readonly journey: JourneyJson }): JSX.Element {
  return (
    <section class="card" aria-label="Steps">
      <div class="card-head">
        <h2>Steps</h2>
      </div>
      <ol class="steps">
        {journey.steps.map((step, index) => (
          <li key={`${step.at} ${index}`} class={`step is-${TONES[step.kind] ?? "plain"}`}>
            <span class="step-time">+{sinceWords(step.at - journey.startedAt)}</span>
            <span class="step-what">
              <strong>{step.kind}</strong>
              {step.node !== undefined && <span class="is-code"> {step.node}</span>}
              <span class="muted"> {detailWords(step.detail)}</span>
            </span>
          </li>
        ))}
      </ol>
      {journey.leftOut > 0 && <p class="muted">{numberWords(journey.leftOut)} more steps were not kept.</p>}
    </section>
  );
}

/** Steps have whole milliseconds. */
function sinceWords(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : tookWords(ms);
}

const SILENT = new Set(["parents", "emits", "phase"]);

function detailWords(detail: JourneyJson["steps"][number]["detail"]): string {
  return Object.entries(detail)
    .filter(([name]) => !SILENT.has(name))
    .map(([name, value]) => {
      if (name === "ranMs" || name === "tookMs") return `in ${tookWords(Number(value))}`;
      if (name === "afterMs") return `again in ${tookWords(Number(value))}`;
      if (name === "attempt") return value === 0 ? "" : `try ${Number(value) + 1}`;
      if (name === "ports" || name === "port") return `by ${Array.isArray(value) ? value.join(", ") : value}`;
      return Array.isArray(value) ? value.join(", ") : String(value);
    })
    .filter((text) => text !== "")
    .join(", ");
}
