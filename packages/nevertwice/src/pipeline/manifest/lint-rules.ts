/** The rules of `pipeline lint` by name. A node's [lint] table names the rules that its author does not want to hear about. */
export const LINT_RULES = [
  "impure-core",
  "direct-effect",
  "effect-not-declared",
  "effect-not-used",
  "port-not-declared",
  "port-not-emitted",
  "key-missing",
  "intent-missing",
] as const;
export type LintRule = (typeof LINT_RULES)[number];

export function isLintRule(name: string): name is LintRule {
  return LINT_RULES.some((rule) => rule === name);
}
