/** Tests dashboard/pipelines/graph-layout.ts. */
import { describe, expect, it } from "vitest";
import { type Direction, layOut, type PlacedBox } from "../dashboard/pipelines/graph-layout.ts";

const boxes = (...ids: readonly string[]) => ids.map((id) => ({ id, width: 100, height: 40 }));
const edges = (...texts: readonly string[]) =>
  texts.map((text) => {
    const [from = "", to = ""] = text.split(">");
    return { from, to };
  });

describe("the layout of a graph", () => {
  it("puts each node behind all nodes that lead to it", () => {
    const { nodes, width, height } = layOut(boxes("a", "b", "c"), edges("a>b", "b>c", "a>c"), "across");
    const x = (id: string) => nodes.get(id)?.x ?? Number.NaN;
    expect([x("a"), x("b"), x("c")]).toEqual([0, 134, 268]);
    expect([...nodes.keys()].sort()).toEqual(["a", "b", "c"]);
    expect({ width, height }).toEqual({ width: 368, height: 68 });
  });

  it("runs from top to bottom where the page is narrow", () => {
    const { nodes } = layOut(boxes("a", "b"), edges("a>b"), "down");
    expect([nodes.get("a")?.y, nodes.get("b")?.y]).toEqual([0, 74]);
  });

  it("leads an edge over several layers past the nodes between", () => {
    const { nodes, paths } = layOut(boxes("a", "b", "c"), edges("a>b", "b>c", "a>c"), "across");
    const middle = nodes.get("b") as PlacedBox;
    const bend = /, 134 ([\d.]+) L/.exec(paths[2] ?? "")?.[1];
    const y = Number(bend);
    expect(y < middle.y || y > middle.y + middle.height, `the edge passes at ${y}`).toBe(true);
  });

  it("sorts layers so that edges do not cross without need", () => {
    const { nodes } = layOut(boxes("a", "b", "x", "y"), edges("a>y", "b>x"), "across");
    const y = (id: string) => nodes.get(id)?.y ?? Number.NaN;
    expect(y("a") < y("b")).toBe(y("y") < y("x"));
  });

  it.each<Direction>(["across", "down"])("never lets two of 200 nodes overlap: %s", (direction) => {
    const ids = Array.from({ length: 200 }, (_, index) => `n${index}`);
    const links = ids.slice(1).map((to, index) => ({ from: `n${Math.floor(index / 3)}`, to }));
    const placed = [...layOut(boxes(...ids), links, direction).nodes.values()];
    const overlaps = placed.filter((a, index) =>
      placed.slice(index + 1).some((b) => Math.abs(a.x - b.x) < 100 && Math.abs(a.y - b.y) < 40),
    );
    expect(placed).toHaveLength(200);
    expect(overlaps).toEqual([]);
  });
});
