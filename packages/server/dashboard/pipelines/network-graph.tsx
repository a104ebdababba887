/** A network drawn as a graph, with the figures of each node. Each node is a link that chooses it. */
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type {
  NetworkFiguresJson,
  NetworkJson,
  NetworkNodeJson,
  NodeFiguresJson,
} from "../../src/api/api-json.ts";
import { numberWords, tookWords } from "../formats.ts";
import { navigate } from "../navigation.ts";
import { type Direction, layOut } from "./graph-layout.ts";

const NODE = { width: 168, height: 98 };
const PORT = { width: 76, height: 30 };
/** The room around the drawing for focus rings and thick lines. */
const MARGIN = 6;
/** Below this width of the window, layers go from top to bottom. */
const NARROW = "(max-width: 720px)";
const MAX_NAME = 17;
const MAX_PORT_NAME = 10;
/** A wide graph is made smaller to fit, but not smaller than this share; then it scrolls. */
const LEAST_SCALE = 0.8;

interface GraphProps {
  readonly network: NetworkJson;
  readonly figures: NetworkFiguresJson | undefined;
  /** The address of a node's view. */
  readonly linkTo: (node: string) => string;
  readonly chosen?: string | undefined;
  /** Only these nodes are on the way that is shown; the others are faint. */
  readonly way?: ReadonlySet<string> | undefined;
}

export function NetworkGraph({ network, figures, linkTo, chosen, way }: GraphProps): JSX.Element {
  const direction = useDirection();
  const { layout, edges } = useMemo(() => drawn(network, direction), [network, direction]);
  const byName = new Map(figures?.nodes.map((node) => [node.name, node]));
  const [width, height] = [layout.width + 2 * MARGIN, layout.height + 2 * MARGIN];
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
    <section class="graph-box" aria-label={`Graph of ${network.id}`} tabIndex={0}>
      <svg
        class="graph"
        style={{ maxWidth: `${width}px`, minWidth: `${width * LEAST_SCALE}px` }}
        viewBox={`${-MARGIN} ${-MARGIN} ${width} ${height}`}
      >
        <title>{`Nodes and edges of ${network.id}`}</title>
        {edges.map(({ port, from }, index) => {
          const count = port === undefined ? 0 : (byName.get(from)?.ports[port] ?? 0);
          const isFaint = way !== undefined && !way.has(from);
          return (
            <path
              key={`${from} ${index}`}
              class={`graph-edge${count > 0 ? " is-busy" : ""}${isFaint ? " is-faint" : ""}`}
              d={layout.paths[index]}
            />
          );
        })}
        {Object.keys(network.exposed.in).map((name) => portBox(`in ${name}`, name))}
        {Object.keys(network.exposed.out).map((name) => portBox(`out ${name}`, name))}
        {network.nodes.map((node) => {
          const place = layout.nodes.get(`node ${node.name}`);
          if (place === undefined) return undefined;
          return (
            <NodeBox
              key={node.name}
              node={node}
              figures={byName.get(node.name)}
              place={place}
              href={linkTo(node.name)}
              isChosen={chosen === node.name}
              isFaint={way !== undefined && !way.has(node.name)}
            />
          );
        })}
      </svg>
    </section>
  );

  function portBox(id: string, name: string): JSX.Element | undefined {
    const place = layout.nodes.get(id);
    if (place === undefined) return undefined;
    return (
      <g key={id} class="graph-port" transform={`translate(${place.x} ${place.y})`}>
        <title>{name}</title>
        <rect width={place.width} height={place.height} rx={place.height / 2} />
        <text x={place.width / 2} y={place.height / 2 + 4}>
          {shortened(name, MAX_PORT_NAME)}
        </text>
      </g>
    );
  }
}

function NodeBox(props: {
  readonly node: NetworkNodeJson;
  readonly figures: NodeFiguresJson | undefined;
  readonly place: { readonly x: number; readonly y: number };
  readonly href: string;
  readonly isChosen: boolean;
  readonly isFaint: boolean;
}): JSX.Element {
  const { node, figures, place, href, isChosen, isFaint } = props;
  const trouble = troubleWords(figures);
  const tone = trouble === undefined ? "" : ` is-${trouble.tone}`;
  return (
    <a
      class={`graph-node is-${node.kind}${tone}${isChosen ? " is-chosen" : ""}${isFaint ? " is-faint" : ""}`}
      href={href}
      aria-label={nodeWords(node, figures)}
      aria-current={isChosen ? "true" : undefined}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        navigate(href, "replace");
      }}
    >
      <g transform={`translate(${place.x} ${place.y})`}>
        <title>{node.name}</title>
        <rect width={NODE.width} height={NODE.height} rx={node.kind === "router" ? 26 : 10} />
        <text class="graph-name" x={12} y={24}>
          {shortened(node.name, MAX_NAME)}
        </text>
        {node.key !== null && <circle class="graph-key" cx={NODE.width - 16} cy={20} r={4} />}
        {figureLines(figures).map((line, index) => (
          <text key={line} class={`graph-figure${index === 0 ? "" : " is-muted"}`} x={12} y={43 + 16 * index}>
            {line}
          </text>
        ))}
        {trouble !== undefined && (
          <text class="graph-trouble" x={12} y={91}>
            {trouble.text}
          </text>
        )}
      </g>
    </a>
  );
}

/** Rate and work, durations, queue: what fits below the name. */
function figureLines(figures: NodeFiguresJson | undefined): readonly string[] {
  if (figures === undefined) return [];
  const { perSecond, active, waiting, ranMs } = figures;
  return [
    `${numberWords(perSecond)}/s · ${numberWords(active)} active`,
    ranMs.count === 0 ? "nothing completed" : `p50 ${shortTook(ranMs.p50)} · p95 ${shortTook(ranMs.p95)}`,
    `${numberWords(waiting)} waiting`,
  ];
}

function shortTook(ms: number): string {
  return tookWords(ms).replace(" ", "");
}

/** The two things that an operator should see first: held keys, failures, retries. */
function troubleWords(
  figures: NodeFiguresJson | undefined,
): { readonly text: string; readonly tone: string } | undefined {
  if (figures === undefined) return undefined;
  const { counts, held } = figures;
  const parts = [
    ...((held ?? 0) > 0 ? [`${heldWords(held ?? 0)} held`] : []),
    ...(counts.failed > 0 ? [`${numberWords(counts.failed)} failed`] : []),
    ...(counts.retried > 0 ? [`${numberWords(counts.retried)} retried`] : []),
  ];
  if (parts.length === 0) return undefined;
  return { text: parts.slice(0, 2).join(" · "), tone: counts.failed > 0 ? "bad" : "warn" };
}

/** The server counts up to 100. */
export function heldWords(held: number): string {
  return held >= 100 ? "100+" : String(held);
}

function nodeWords(node: NetworkNodeJson, figures: NodeFiguresJson | undefined): string {
  const trouble = troubleWords(figures);
  return [
    `${node.name}, ${node.kind}`,
    ...(figures === undefined
      ? []
      : [`${numberWords(figures.perSecond)} a second`, `${figures.waiting} waiting`]),
    ...(trouble === undefined ? [] : [trouble.text]),
  ].join(", ");
}

interface DrawnEdge {
  readonly from: string;
  /** Undefined for an edge from an exposed port. */
  readonly port: string | undefined;
}

function drawn(network: NetworkJson, direction: Direction) {
  const { nodes, edges, exposed } = network;
  const boxes = [
    ...Object.keys(exposed.in).map((name) => ({ id: `in ${name}`, ...PORT })),
    ...nodes.map(({ name }) => ({ id: `node ${name}`, ...NODE })),
    ...Object.keys(exposed.out).map((name) => ({ id: `out ${name}`, ...PORT })),
  ];
  const lines = [
    ...Object.entries(exposed.in).map(([name, to]) => ({
      ends: { from: `in ${name}`, to: `node ${nodeIn(to)}` },
      drawn: { from: name, port: undefined },
    })),
    ...edges.map(({ from, to }) => ({
      ends: { from: `node ${nodeIn(from)}`, to: `node ${nodeIn(to)}` },
      drawn: { from: nodeIn(from), port: portIn(from) },
    })),
    ...Object.entries(exposed.out).map(([name, from]) => ({
      ends: { from: `node ${nodeIn(from)}`, to: `out ${name}` },
      drawn: { from: nodeIn(from), port: portIn(from) },
    })),
  ];
  const layout = layOut(
    boxes,
    lines.map(({ ends }) => ends),
    direction,
  );
  return { layout, edges: lines.map((line): DrawnEdge => line.drawn) };
}

/** `charge` of `charge.in`. */
function nodeIn(port: string): string {
  return port.slice(0, port.lastIndexOf("."));
}

function portIn(port: string): string {
  return port.slice(port.lastIndexOf(".") + 1);
}

function shortened(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function useDirection(): Direction {
  const [isNarrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const media = matchMedia(NARROW);
    const changed = () => setNarrow(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return isNarrow ? "down" : "across";
}
