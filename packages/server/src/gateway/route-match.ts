/**
 * Finds the rule for a request, and the normal form of its path that identifies its key. In the part that the rule spells
 * out, case, needless escapes and a trailing slash make no difference. The form is the one of the adapters. A path that only
 * some services would read as the path of a rule is refused: otherwise a request could bypass its rule.
 */
import { normalPath, type PathSegment } from "nevertwice/http";
import type { GatewayRule } from "./gateway-rules.ts";
import { readings, readPath, unclearPath } from "./target-path.ts";

export type RuleTarget = Pick<GatewayRule, "path" | "methods">;

export interface Match<Rule> {
  readonly rule: Rule;
  /** Path and query in normal form: the literal segments of the rule as the rule spells them, all else as sent. */
  readonly identity: string;
}

export interface RouteMatcher<Rule> {
  /**
   * The first rule for this method and origin-form target; undefined if there is none. Throws `request-invalid` if the
   * path is ambiguous.
   */
  find(method: string, target: string): Match<Rule> | undefined;
}

interface Pattern<Rule> {
  readonly rule: Rule;
  /** The segments as the rule spells them. */
  readonly spelt: readonly PathSegment[];
  /** The segments for comparison: decoded, in lower case. Undefined for a parameter, which any one segment fits. */
  readonly segments: readonly (string | undefined)[];
  /** Whether the rule also applies to all paths below. */
  readonly isPrefix: boolean;
}

export function createRouteMatcher<Rule extends RuleTarget>(rules: readonly Rule[]): RouteMatcher<Rule> {
  const patterns = new Map<string, Pattern<Rule>[]>();
  for (const rule of rules)
    for (const method of rule.methods) {
      const known = patterns.get(method) ?? [];
      patterns.set(method, [...known, parsePattern(rule)]);
    }

  return {
    find(method, target) {
      const candidates = patterns.get(method);
      if (candidates === undefined) return undefined;
      const end = target.indexOf("?");
      const sent = end === -1 ? target : target.slice(0, end);
      const path = readPath(sent);
      for (const pattern of candidates) {
        if (fits(pattern, path.segments))
          return {
            rule: pattern.rule,
            identity: normalPath(sent, { patterns: [pattern.spelt] }) + target.slice(sent.length),
          };
        if (!path.isPlain && [...readings(path)].some((reading) => fits(pattern, reading)))
          throw unclearPath(
            `could also be read as ${pattern.rule.path}; send it without escapes, parameters and empty segments`,
          );
      }
      return undefined;
    },
  };
}

/** Throws `request-invalid` if the path of the rule is ambiguous itself. */
export function parsePattern<Rule extends RuleTarget>(rule: Rule): Pattern<Rule> {
  const isPrefix = rule.path.endsWith("/*");
  const { raw, segments } = readPath(isPrefix ? rule.path.slice(0, -2) : rule.path);
  if (segments.some((segment) => segment === "" || /[/\\;%]/.test(segment)))
    throw unclearPath("has an empty segment, or one with a slash, a semicolon or a percent sign in it");
  const spelt = segments.map((_, index) => readSegment(raw[index] as string));
  return {
    rule,
    spelt: isPrefix ? [...spelt, "rest"] : spelt,
    segments: segments.map((segment, index) => (spelt[index] === "parameter" ? undefined : segment)),
    isPrefix,
  };
}

function readSegment(segment: string): PathSegment {
  if (/^\{\w+\}$/.test(segment)) return "parameter";
  if (/[{}]/.test(segment)) throw unclearPath("has a brace in a segment that is no parameter, such as {id}");
  return { literal: segment };
}

function fits({ segments, isPrefix }: Pattern<unknown>, path: readonly string[]): boolean {
  if (isPrefix ? path.length < segments.length : path.length !== segments.length) return false;
  return segments.every((segment, index) =>
    segment === undefined ? path[index] !== "" : segment === path[index],
  );
}

/**
 * Returns the label of an operation in metrics. For a guarded request (`POST /orders/ann@example.com`) it is the method
 * and the path of the rule (`POST /orders/*`); for other operations it is the operation itself.
 */
export function createRouteLabel(rules: readonly RuleTarget[]): (operation: string) => string {
  const { find } = createRouteMatcher(rules);
  return (operation) => {
    const [, method, path] = /^([A-Z]+) (\/.*|sha256:[0-9a-f]{64})$/s.exec(operation) ?? [];
    if (method === undefined || path === undefined) return operation;
    if (!path.startsWith("/")) return `${method} (long path)`;
    try {
      const match = find(method, path);
      return match === undefined ? operation : `${method} ${match.rule.path}`;
    } catch {
      // The gateway refuses such a path, so this is an operation of the API that looks like one.
      return operation;
    }
  };
}
