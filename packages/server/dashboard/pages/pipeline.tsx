/** One network: its graph with live figures, the chosen node, and the latest journeys of messages. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type {
  JourneyPageJson,
  NetworkFiguresJson,
  NetworkJson,
  NetworkNodeJson,
  NodeFiguresJson,
} from "../../src/api/api-json.ts";
import { clockWords, numberWords, plural, tookWords } from "../formats.ts";
import { useFeed } from "../live.ts";
import { useLoaded } from "../load-state.ts";
import { filteredAddress, navigate } from "../navigation.ts";
import { Badge } from "../parts/badge.tsx";
import { Fact } from "../parts/fact.tsx";
import { Head } from "../parts/head.tsx";
import { ICONS } from "../parts/icons.tsx";
import { StateFilter } from "../parts/state-filter.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { journeyAddress, networkAddress, networkId, networkRoute } from "../pipelines/network-address.ts";
import { heldWords, NetworkGraph } from "../pipelines/network-graph.tsx";
import type { PageProps } from "../routes.ts";
import { get } from "../server.ts";

const NETWORK_MS = 10_000;
const JOURNEYS_MS = 2_000;
const ENDINGS = ["running", "acknowledge", "later", "reject"] as const;

export function Page({ params, query }: PageProps): JSX.Element {
  const id = networkId(params.network);
  const loaded = useLoaded(
    () => get<{ readonly networks: readonly NetworkJson[] }>("/v1/pipelines"),
    id,
    NETWORK_MS,
  );
  const { snapshot } = useFeed();
  const figures = snapshot?.pipelines.find((one) => one.id === id);
  const filters = {
    node: query.get("node") ?? "",
    ending: query.get("ending") ?? "",
    message: query.get("message") ?? "",
  };
  const linkTo = (more: Partial<typeof filters>) =>
    filteredAddress(networkAddress(id), { ...filters, ...more });
  return (
    <div class="page">
      <Head title={id}>
        {figures === undefined
          ? "A network of nodes."
          : `${figures.status}, ${plural(figures.underWay, "message")} in the network`}
      </Head>
      <Shown loaded={loaded}>
        {({ networks }) => {
          const network = networks.find((one) => one.id === id);
          if (network === undefined) return <NotRunning />;
          const node = network.nodes.find(({ name }) => name === filters.node);
          return (
            <>
              <section class="card" aria-label="Topology">
                <NetworkGraph
                  network={network}
                  figures={figures}
                  chosen={node?.name}
                  linkTo={(name) => linkTo({ node: name === filters.node ? "" : name })}
                />
                <p class="graph-legend muted">
                  Each node: messages a second, p50 and p95 of the last minute, its queue, and what went
                  wrong. A dot marks a node with a key.
                  {network.hiddenNodes > 0 && ` ${plural(network.hiddenNodes, "more node")} not drawn.`}
                </p>
              </section>
              {node !== undefined && (
                <NodeCard node={node} figures={figures?.nodes.find(({ name }) => name === node.name)} />
              )}
              <JourneyList id={id} filters={filters} linkTo={linkTo} figures={figures} />
            </>
          );
        }}
      </Shown>
    </div>
  );
}

function NotRunning(): JSX.Element {
  return (
    <section class="card">
      <Empty icon="pipelines" title="This network does not run here">
        <p>
          It may have stopped, or it runs in another process.{" "}
          <a href="/pipelines">All networks of this server</a>
        </p>
      </Empty>
    </section>
  );
}

function NodeCard(props: {
  readonly node: NetworkNodeJson;
  readonly figures: NodeFiguresJson | undefined;
}): JSX.Element {
  const { node, figures } = props;
  const counts = figures?.counts;
  return (
    <section class="card" aria-label={`Node ${node.name}`}>
      <div class="card-head">
        <h2 class="is-code">{node.name}</h2>
        <span class="muted">
          {node.kind}
          {node.groups === null ? "" : `, ${node.groups}`}
        </span>
      </div>
      {node.intent !== null && <p>{node.intent}</p>}
      <dl class="facts">
        <Fact name="Completed in a minute">{numberWords(counts?.completed ?? 0)}</Fact>
        <Fact name="Failed">{numberWords(counts?.failed ?? 0)}</Fact>
        <Fact name="Retries">{numberWords(counts?.retried ?? 0)}</Fact>
        <Fact name="Duplicates">{numberWords(counts?.duplicate ?? 0)}</Fact>
        <Fact name="Filtered out">{numberWords(counts?.dropped ?? 0)}</Fact>
        <Fact name="p50 and p95">
          {figures === undefined || figures.ranMs.count === 0
            ? "none yet"
            : `${tookWords(figures.ranMs.p50)}, ${tookWords(figures.ranMs.p95)}`}
        </Fact>
        <Fact name="Waiting">
          {numberWords(figures?.waiting ?? 0)}
          {node.buffer > 0 && ` of ${numberWords(node.buffer)}`}
        </Fact>
        <Fact name="Active">
          {numberWords(figures?.active ?? 0)} of {numberWords(node.concurrency)}
        </Fact>
        <Fact name="Key">{node.key === null ? "none: it runs at least once" : node.key.join(", ")}</Fact>
        <Fact name="Waiting for a decision">
          <HeldLink node={node} figures={figures} />
        </Fact>
        <Fact name="Contract">
          {node.retries === 0 ? "no retries" : plural(node.retries, "retry", "retries")}
          {node.timeoutMs === null ? ", no timeout" : `, timeout ${tookWords(node.timeoutMs)}`}
        </Fact>
        <Fact name="Effects">{node.effects.join(", ") || "none"}</Fact>
        {node.owner !== null && <Fact name="Owner">{node.owner}</Fact>}
        {(figures?.restarts ?? 0) > 0 && <Fact name="Restarts">{figures?.restarts}</Fact>}
      </dl>
    </section>
  );
}

function HeldLink({
  node,
  figures,
}: {
  readonly node: NetworkNodeJson;
  readonly figures: NodeFiguresJson | undefined;
}) {
  if (node.keyScope === null) return <>no keys</>;
  const held = figures?.held ?? undefined;
  return (
    <>
      {held === undefined ? "not known" : heldWords(held)}{" "}
      <a
        href={filteredAddress("/keys", {
          scope: node.keyScope,
          state: held === undefined || held === 0 ? "" : "lapsed",
        })}
      >
        its keys
      </a>
    </>
  );
}

function JourneyList(props: {
  readonly id: string;
  readonly filters: { readonly ending: string; readonly message: string };
  readonly linkTo: (more: { readonly ending?: string; readonly message?: string }) => string;
  readonly figures: NetworkFiguresJson | undefined;
}): JSX.Element {
  const { id, filters, linkTo, figures } = props;
  const { ending, message } = filters;
  const loaded = useLoaded(
    () => get<JourneyPageJson>(`${networkRoute(id)}/journeys`, { ending, message }),
    JSON.stringify([id, ending, message]),
    JOURNEYS_MS,
  );
  const [typed, setTyped] = useState(message);
  return (
    <section class="card table-box" aria-label="Journeys">
      <div class="card-head list-head">
        <h2>Journeys of messages</h2>
        <StateFilter
          states={ENDINGS}
          chosen={ending}
          choose={(chosen) => navigate(linkTo({ ending: chosen }), "replace")}
        />
      </div>
      <form
        class="row journey-search"
        onSubmit={(event) => {
          event.preventDefault();
          navigate(linkTo({ message: typed.trim() }), "replace");
        }}
      >
        <label class="search">
          <span class="unseen">Id or trace of a message</span>
          {ICONS.search}
          <input
            class="input"
            type="search"
            value={typed}
            placeholder="Id or trace of a message"
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="button">
          Find
        </button>
      </form>
      <Shown loaded={loaded}>
        {({ journeys }) =>
          journeys.length === 0 ? (
            <Empty icon="pipelines" title="No journeys">
              <p>Only the latest ones are kept, those that failed apart from the others.</p>
            </Empty>
          ) : (
            <table class="table is-stacking">
              <thead>
                <tr>
                  <th scope="col">Message</th>
                  <th scope="col">Ending</th>
                  <th scope="col">Way</th>
                  <th scope="col" class="is-number">
                    Took
                  </th>
                  <th scope="col" class="is-number">
                    Entered
                  </th>
                </tr>
              </thead>
              <tbody>
                {journeys.map((journey) => (
                  <tr key={journey.number}>
                    <td data-name="Message">
                      <a class="is-code" href={journeyAddress(id, journey.number)}>
                        {journey.trace}
                      </a>
                    </td>
                    <td data-name="Ending">
                      <Badge state={journey.ending} />{" "}
                      {journey.reason !== undefined && <span class="muted">{journey.reason}</span>}
                    </td>
                    <td data-name="Way" class="muted">
                      {journey.nodes.join(" → ")}
                    </td>
                    <td data-name="Took" class="is-number">
                      {journey.ending === "running"
                        ? "–"
                        : `${numberWords(journey.lastAt - journey.startedAt)} ms`}
                    </td>
                    <td data-name="Entered" class="is-number">
                      {clockWords(journey.startedAt)}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Shown>
      {(figures?.notFollowed ?? 0) > 0 && (
        <p class="more muted">
          {plural(figures?.notFollowed ?? 0, "message")} entered while too many others were followed; they
          have no journey.
        </p>
      )}
    </section>
  );
}
