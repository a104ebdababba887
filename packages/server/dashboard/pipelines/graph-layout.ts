/**
 * Lays out a directed graph without cycles: in layers by the longest way from a start, and inside a layer so that few edges
 * cross. Pure geometry: it knows nothing of networks.
 */

export interface LayoutNode {
  readonly id: string;
  readonly width: number;
  readonly height: number;
}

export interface LayoutEdge {
  readonly from: string;
  readonly to: string;
}

/** `across`: layers go from left to right. `down`: from top to bottom. */
export type Direction = "across" | "down";

export interface PlacedBox extends LayoutNode {
  /** Of its upper left corner. */
  readonly x: number;
  readonly y: number;
}

export interface GraphLayout {
  readonly width: number;
  readonly height: number;
  readonly nodes: ReadonlyMap<string, PlacedBox>;
  /** An SVG path for each edge, in their order. */
  readonly paths: readonly string[];
}

/** The room between layers, and between the nodes of a layer. */
const LAYER_GAP = 34;
const NODE_GAP = 20;
const SWEEPS = 4;

interface Slot {
  readonly id: string;
  readonly width: number;
  readonly height: number;
  /** A slot that only keeps a place free for a long edge. */
  readonly isBend: boolean;
}

export function layOut(
  nodes: readonly LayoutNode[],
  edges: readonly LayoutEdge[],
  direction: Direction,
): GraphLayout {
  const layerById = findLayers(nodes, edges);
  const layers: Slot[][] = [];
  const put = (layer: number, slot: Slot) => {
    while (layers.length <= layer) layers.push([]);
    layers[layer]?.push(slot);
  };
  for (const node of nodes) put(layerById.get(node.id) ?? 0, { ...node, isBend: false });
  const ways = edges.map(({ from, to }, index) => {
    const way = [from];
    for (let layer = (layerById.get(from) ?? 0) + 1; layer < (layerById.get(to) ?? 0); layer++) {
      const id = `bend ${index} ${layer}`;
      put(layer, { id, width: 8, height: 8, isBend: true });
      way.push(id);
    }
    return [...way, to];
  });
  orderLayers(layers, ways);
  const placed = place(layers, direction);
  const { width, height } = extent(placed.values());
  return {
    width,
    height,
    nodes: new Map([...placed].filter(([id]) => layerById.has(id))),
    paths: ways.map((way) =>
      toPath(
        way.flatMap((id) => placed.get(id) ?? []),
        direction,
      ),
    ),
  };
}

/** The length of the longest way from a node without incoming edges. */
function findLayers(nodes: readonly LayoutNode[], edges: readonly LayoutEdge[]): ReadonlyMap<string, number> {
  const layers = new Map(nodes.map(({ id }) => [id, 0]));
  // Each round settles one more layer; a cycle, which a network never has, would end with the last round.
  for (const _round of nodes) {
    let isChanged = false;
    for (const { from, to } of edges) {
      const least = (layers.get(from) ?? 0) + 1;
      if ((layers.get(to) ?? 0) >= least) continue;
      layers.set(to, least);
      isChanged = true;
    }
    if (!isChanged) break;
  }
  return layers;
}

/** Sorts each layer by the mean place of its neighbours in the layer before, then in the layer after, a few times. */
function orderLayers(layers: Slot[][], ways: readonly (readonly string[])[]): void {
  const before = new Map<string, string[]>();
  const after = new Map<string, string[]>();
  for (const way of ways)
    for (let step = 1; step < way.length; step++) {
      const [from, to] = [way[step - 1] as string, way[step] as string];
      before.set(to, [...(before.get(to) ?? []), from]);
      after.set(from, [...(after.get(from) ?? []), to]);
    }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isForward = sweep % 2 === 0;
    const neighbours = isForward ? before : after;
    const places = new Map(layers.flatMap((layer) => layer.map(({ id }, index) => [id, index] as const)));
    for (const layer of isForward ? layers : [...layers].reverse()) {
      const mean = new Map(
        layer.map(({ id }, index) => {
          const found = (neighbours.get(id) ?? []).map((one) => places.get(one) ?? 0);
          return [id, found.length === 0 ? index : found.reduce((sum, one) => sum + one, 0) / found.length];
        }),
      );
      layer.sort((a, b) => (mean.get(a.id) ?? 0) - (mean.get(b.id) ?? 0));
      for (const [index, { id }] of layer.entries()) places.set(id, index);
    }
  }
}

/** Layers one after the other; the nodes of each are centred on a common line. */
function place(layers: readonly (readonly Slot[])[], direction: Direction): ReadonlyMap<string, PlacedBox> {
  const isAcross = direction === "across";
  const thick = (slot: Slot) => (isAcross ? slot.width : slot.height);
  const long = (slot: Slot) => (isAcross ? slot.height : slot.width);
  const lengths = layers.map((layer) => layer.reduce((sum, slot) => sum + long(slot) + NODE_GAP, -NODE_GAP));
  const longest = Math.max(0, ...lengths);
  const placed = new Map<string, PlacedBox>();
  let offset = 0;
  for (const [index, layer] of layers.entries()) {
    const thickness = Math.max(0, ...layer.map(thick));
    let along = (longest - (lengths[index] ?? 0)) / 2;
    for (const given of layer) {
      // A bend is as thick as its layer, so that the edge passes straight between the nodes.
      const slot = !given.isBend ? given : { ...given, [isAcross ? "width" : "height"]: thickness };
      const across = offset + (thickness - thick(slot)) / 2;
      const [x, y] = isAcross ? [across, along] : [along, across];
      placed.set(slot.id, { id: slot.id, width: slot.width, height: slot.height, x, y });
      along += long(slot) + NODE_GAP;
    }
    offset += thickness + LAYER_GAP;
  }
  return placed;
}

function extent(placed: Iterable<PlacedBox>): { readonly width: number; readonly height: number } {
  let [width, height] = [0, 0];
  for (const { x, y, width: wide, height: high } of placed) {
    width = Math.max(width, x + wide);
    height = Math.max(height, y + high);
  }
  return { width, height };
}

/** Curves from the end of each node to the start of the next. */
function toPath(way: readonly PlacedBox[], direction: Direction): string {
  const isAcross = direction === "across";
  const start = ({ x, y, width, height }: PlacedBox) => (isAcross ? [x, y + height / 2] : [x + width / 2, y]);
  const end = ({ x, y, width, height }: PlacedBox) =>
    isAcross ? [x + width, y + height / 2] : [x + width / 2, y + height];
  return way
    .slice(1)
    .map((to, index) => {
      const [x1 = 0, y1 = 0] = end(way[index] as PlacedBox);
      const [x2 = 0, y2 = 0] = start(to);
      const bend = isAcross ? (x2 - x1) / 2 : (y2 - y1) / 2;
      const first = isAcross ? [x1 + bend, y1] : [x1, y1 + bend];
      const second = isAcross ? [x2 - bend, y2] : [x2, y2 - bend];
      const points = [first, second, [x2, y2]].map((point) => point.map(round).join(" ")).join(", ");
      return `${index === 0 ? `M ${round(x1)} ${round(y1)} ` : `L ${round(x1)} ${round(y1)} `}C ${points}`;
    })
    .join(" ");
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
