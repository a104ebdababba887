/** The rules of lint for one node: what its manifest declares, compared with what the text of its handlers does. */
import { nearest } from "../../core/did-you-mean.ts";
import type { LintRule } from "../manifest/lint-rules.ts";
import type { Path } from "../manifest/toml-lines.ts";
import { AXES, type Axis, type NodeModel } from "../model.ts";
import { type DirectEffect, findDirectEffects } from "./direct-effects.ts";
import { findEffectUses, findEmits, findTableUses, type NamedUse } from "./effect-uses.ts";
import type { CodePiece } from "./reachable-code.ts";

/** The code that core and shell reach; empty if it was not found. */
export interface NodeCode {
  readonly core: readonly CodePiece[];
  readonly shell: readonly CodePiece[];
}

export interface NodeFinding {
  readonly rule: LintRule;
  readonly at: { readonly path: Path } | Pick<NamedUse, "piece" | "position">;
  readonly problem: string;
  readonly fix: string;
}

interface LintedNode {
  readonly model: NodeModel;
  readonly code: NodeCode;
}

export function lintNode(node: LintedNode): readonly NodeFinding[] {
  return RULES.flatMap((rule) => rule(node));
}

const RULES: readonly ((node: LintedNode) => readonly NodeFinding[])[] = [
  impureCore,
  directEffects,
  undeclaredEffects,
  unusedEffects,
  ports,
  missingKey,
  missingIntent,
];

const INSTEAD: Readonly<Record<Axis, string>> = {
  http: "effects.http",
  db: "effects.db(name)",
  time: "effects.time.now()",
  random: "effects.random",
};

function impureCore({ code, model }: LintedNode): readonly NodeFinding[] {
  const found: readonly Pick<DirectEffect, "piece" | "position" | "what">[] = [
    ...findDirectEffects(code.core),
    ...findEffectUses(code.core).uses.map(({ name, ...at }) => ({ ...at, what: `effects.${name}` })),
  ];
  return found.map(({ what, ...at }) => ({
    rule: "impure-core",
    at,
    problem: `the core of ${model.id} uses ${what}, so it may decide otherwise when a try is repeated`,
    fix: "move it to the effect_shell, or take the value from the payload",
  }));
}

function directEffects({ code, model }: LintedNode): readonly NodeFinding[] {
  return findDirectEffects(code.shell).map(({ what, axis, ...at }) => ({
    rule: "direct-effect",
    at,
    problem: `the shell of ${model.id} uses ${what} directly, which its manifest does not show and a timeout does not stop`,
    fix:
      axis === undefined
        ? 'no axis covers it: name the exception in [lint] allow = ["direct-effect"]'
        : `use ${INSTEAD[axis]}, and declare ${axis} under [effects]`,
  }));
}

function undeclaredEffects({ code, model }: LintedNode): readonly NodeFinding[] {
  const findings = findEffectUses(code.shell).uses.flatMap(({ name, ...at }): readonly NodeFinding[] => {
    const axis = AXES.find((known) => known === name);
    if (axis !== undefined && model.effects.has(axis)) return [];
    const near = nearest(name, AXES);
    return [
      {
        rule: "effect-not-declared",
        at,
        problem: `the shell of ${model.id} uses effects.${name}, which its manifest does not declare`,
        fix:
          axis !== undefined
            ? `add ${axis} to [effects]`
            : `write effects.${near ?? AXES.join(", effects.")}`,
      },
    ];
  });
  const tables = model.effects.get("db")?.tables;
  if (tables === undefined) return findings;
  const others = findTableUses(code.shell).filter(({ name }) => !tables.includes(name));
  return [
    ...findings,
    ...others.map(
      ({ name, ...at }): NodeFinding => ({
        rule: "effect-not-declared",
        at,
        problem: `the shell of ${model.id} uses ${JSON.stringify(name)}, which effects.db.tables does not list`,
        fix: "add it to effects.db.tables",
      }),
    ),
  ];
}

function unusedEffects({ code, model }: LintedNode): readonly NodeFinding[] {
  const { uses, isWhole } = findEffectUses(code.shell);
  if (!isWhole || code.shell.length === 0) return [];
  const used = new Set(uses.map(({ name }) => name));
  return [...model.effects.keys()]
    .filter((axis) => !used.has(axis))
    .map((axis) => ({
      rule: "effect-not-used",
      at: { path: ["effects", axis] },
      problem: `${model.id} declares ${axis}, and its shell does not use effects.${axis}`,
      fix: `remove ${axis} from [effects], or use it`,
    }));
}

function ports({ code, model }: LintedNode): readonly NodeFinding[] {
  if (model.kind === "source") return [];
  const { uses, isWhole } = findEmits(code.shell);
  const names = [...model.out.keys()];
  const unknown = uses.filter(({ name }) => !model.out.has(name));
  const emitted = new Set([...uses.map(({ name }) => name), model.join?.deadLetter]);
  const silent = isWhole ? names.filter((name) => !emitted.has(name)) : [];
  return [
    ...unknown.map(({ name, ...at }): NodeFinding => {
      const near = nearest(name, names);
      return {
        rule: "port-not-declared",
        at,
        problem: `the shell of ${model.id} emits by ${JSON.stringify(name)}, which is not an out-port`,
        fix: near === undefined ? `add ${name} to [ports.out]` : `write ${JSON.stringify(near)}`,
      };
    }),
    ...silent.map(
      (name): NodeFinding => ({
        rule: "port-not-emitted",
        at: { path: ["ports", "out", name] },
        problem: `the shell of ${model.id} never emits by ${JSON.stringify(name)}`,
        fix: "emit by it, or remove it from [ports.out]",
      }),
    ),
  ];
}

const READS = ["GET", "HEAD", "OPTIONS"];

/** A node without a key runs at least once for each delivery. That is fine for reading. */
function missingKey({ model }: LintedNode): readonly NodeFinding[] {
  const { contract, effects, batch, join, kind, id } = model;
  if (kind === "source" || contract.idempotency !== undefined || batch !== undefined || join !== undefined)
    return [];
  const http = effects.get("http");
  const db = effects.get("db");
  const writes = [
    ...(http !== undefined && http.methods?.every((method) => READS.includes(method)) !== true
      ? ["http"]
      : []),
    ...(db !== undefined && db.tables?.every((access) => access.endsWith(":select")) !== true ? ["db"] : []),
  ];
  return writes.slice(0, 1).map((axis) => ({
    rule: "key-missing",
    at: { path: ["contract"] },
    problem: `${id} has the effect ${axis} and no key, so a message that is delivered again repeats it`,
    fix: `add idempotency = { key = "request_id" }, or limit ${axis} to reading`,
  }));
}

function missingIntent({ model }: LintedNode): readonly NodeFinding[] {
  if (model.doc.intent !== undefined) return [];
  const problem = `${model.id} does not say what it is for`;
  return [{ rule: "intent-missing", at: { path: ["node"] }, problem, fix: 'add [doc] with intent = "…"' }];
}
