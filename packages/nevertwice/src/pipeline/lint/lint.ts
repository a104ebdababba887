/**
 * `lintPipeline`: the problems of a network's manifests, and what the text of its handlers shows about them. A check of
 * text can miss what code hides from it, and never runs a handler.
 */
import { dirname, relative } from "node:path";
import { readAssembly } from "../manifest/assembled-manifest.ts";
import type { PlacedNode } from "../manifest/assembly.ts";
import type { LintRule } from "../manifest/lint-rules.ts";
import type { ManifestProblem } from "../manifest/problem.ts";
import { lintNode, type NodeCode, type NodeFinding } from "./node-rules.ts";
import { createCodeReader } from "./reachable-code.ts";

/** Something that the linter found in a manifest or in a handler. */
export interface LintFinding extends Omit<ManifestProblem, "at"> {
  /** `manifest` for what `loadPipeline` refuses too. */
  readonly rule: LintRule | "manifest";
  /** The id of the node; undefined for a finding about the network. */
  readonly node: string | undefined;
}

/** What `lintPipelines` found. */
export interface LintReport {
  /** How many manifests of nodes were looked at. */
  readonly nodes: number;
  /** What was found, in the order of the files. */
  readonly findings: readonly LintFinding[];
}

/**
 * Looks at the manifest of a network with those that it uses, or at the manifest of one node.
 * @throws `manifest-invalid`
 */
export async function lintPipeline(file: string | URL): Promise<LintReport> {
  const read = await readAssembly(file);
  const broken = read.problems.map(
    ({ at: _, ...problem }): LintFinding => ({ ...problem, rule: "manifest", node: undefined }),
  );
  // The code of a network with problems may not have been found, so only a whole one is looked at.
  if (broken.length > 0) return { nodes: read.nodes.length, findings: broken };
  const unique = new Map(read.nodes.map((node) => [node.document.identity, node]));
  const reader = createCodeReader();
  const findings: LintFinding[] = [];
  for (const placed of unique.values()) {
    const node = { model: placed.model, code: await readCode(placed, reader) };
    const allowed = new Set(placed.lint);
    findings.push(
      ...lintNode(node).flatMap((found) => (allowed.has(found.rule) ? [] : [toFinding(placed, found)])),
    );
  }
  return { nodes: unique.size, findings: findings.sort(byPlace) };
}

async function readCode(
  { document }: PlacedNode,
  reader: ReturnType<typeof createCodeReader>,
): Promise<NodeCode> {
  const contract = (document.table.contract ?? {}) as {
    readonly pure_core?: string;
    readonly effect_shell?: string;
  };
  const folder = dirname(String(document.identity));
  const reach = (reference: string | undefined) =>
    reference === undefined ? [] : reader.reach(folder, reference);
  return { core: await reach(contract.pure_core), shell: await reach(contract.effect_shell) };
}

function toFinding({ model, document }: PlacedNode, { at, ...found }: NodeFinding): LintFinding {
  const place =
    "path" in at
      ? { file: document.file, line: document.findLine(at.path) }
      : { file: shownFile(at.piece.file), line: at.piece.source.lineAt(at.position) };
  return { ...place, node: model.id, ...found };
}

function shownFile(path: string): string {
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short;
}

function byPlace(a: LintFinding, b: LintFinding): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  return (a.line ?? 0) - (b.line ?? 0);
}
