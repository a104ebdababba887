/** The list of the networks that run in this server. */
import type { JSX } from "preact";
import type { NetworkFiguresJson, NetworkJson } from "../../src/api/api-json.ts";
import { durationWords, numberWords, plural } from "../formats.ts";
import { useFeed } from "../live.ts";
import { useLoaded } from "../load-state.ts";
import { Head } from "../parts/head.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { networkAddress } from "../pipelines/network-address.ts";
import { heldWords } from "../pipelines/network-graph.tsx";
import type { PageProps } from "../routes.ts";
import { get, serverNow } from "../server.ts";

const EVERY_MS = 10_000;

export function Page({ title }: PageProps): JSX.Element {
  const loaded = useLoaded(
    () => get<{ readonly networks: readonly NetworkJson[] }>("/v1/pipelines"),
    "networks",
    EVERY_MS,
  );
  const { snapshot } = useFeed();
  return (
    <div class="page">
      <Head title={title}>Networks of nodes that run in this server's process.</Head>
      <section class="card table-box" aria-label="Networks">
        <Shown loaded={loaded}>
          {({ networks }) =>
            networks.length === 0 ? (
              <Empty icon="pipelines" title="No network runs here">
                <p>
                  Start one with <code>nevertwice pipeline run FILE --listen</code>, or with{" "}
                  <code>startPipeline</code> of a server in your program.
                </p>
              </Empty>
            ) : (
              <table class="table is-stacking">
                <thead>
                  <tr>
                    <th scope="col">Network</th>
                    <th scope="col">Size</th>
                    <th scope="col" class="is-number">
                      In the network
                    </th>
                    <th scope="col" class="is-number">
                      Done in a minute
                    </th>
                    <th scope="col" class="is-number">
                      Failed in a minute
                    </th>
                    <th scope="col" class="is-number">
                      Held
                    </th>
                    <th scope="col" class="is-number">
                      Running for
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {networks.map((network) => (
                    <Row
                      key={network.id}
                      network={network}
                      figures={snapshot?.pipelines.find(({ id }) => id === network.id)}
                    />
                  ))}
                </tbody>
              </table>
            )
          }
        </Shown>
      </section>
    </div>
  );
}

function Row(props: {
  readonly network: NetworkJson;
  readonly figures: NetworkFiguresJson | undefined;
}): JSX.Element {
  const { network, figures } = props;
  const sum = (count: (node: NetworkFiguresJson["nodes"][number]) => number) =>
    figures?.nodes.reduce((total, node) => total + count(node), 0) ?? 0;
  const held = sum(({ held: own }) => own ?? 0);
  return (
    <tr>
      <td data-name="Network">
        <a href={networkAddress(network.id)}>{network.id}</a>
      </td>
      <td data-name="Size" class="muted">
        {network.version} · {plural(network.nodes.length + network.hiddenNodes, "node")}
      </td>
      <td data-name="In the network" class="is-number">
        {numberWords(figures?.underWay ?? 0)}
      </td>
      <td data-name="Done in a minute" class="is-number">
        {numberWords(sum(({ counts }) => counts.completed))}
      </td>
      <td data-name="Failed in a minute" class="is-number">
        {numberWords(sum(({ counts }) => counts.failed))}
      </td>
      <td data-name="Held" class="is-number">
        {heldWords(held)}
      </td>
      <td data-name="Running for" class="is-number">
        {durationWords(serverNow() - network.startedAt)}
      </td>
    </tr>
  );
}
