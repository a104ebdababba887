/**
 * The rule that holds for a request, and the one form of its path that its key is kept under. The case of letters,
 * needless escapes and a trailing slash make no difference to a rule. A path that only some services would read as one
 * of a rule is refused: it would pass the gateway as one thing and reach the service as another.
 */
import type { GatewayRule } from "../gateway-rules.ts";
import { readings, readPath, refused, type TargetPath } from "./target.ts";

export type Matching = Pick<GatewayRule, "path" | "methods">;

export interface Match<Rule> {
  readonly rule: Rule;
  /** Path and query, spelt the same for every spelling of the path: the rule's own words, then the rest. */
  readonly identity: string;
}

export interface RouteMatcher<Rule> {
  /**
   * The first rule for this method and origin-form target; undefined if there is none. Throws `request-invalid` if the
   * path has no one meaning.
   */
  find(method: string, target: string): Match<Rule> | undefined;
}

interface Pattern<Rule> {
  readonly rule: Rule;
  /** As the rule spells them. */
  readonly spelt: readonly string[];
  /** In lower case and decoded, to be compared. */
  readonly segments: readonly string[];
  /** Whether it holds for everything below its path too. */
  readonly isPrefix: boolean;
}

export function createRouteMatcher<Rule extends Matching>(rules: readonly Rule[]): RouteMatcher<Rule> {
  const patterns = new Map<string, Pattern<Rule>[]>();
  for (const rule of rules)
    for (const method of rule.methods) {
      const known = patterns.get(method) ?? [];
      patterns.set(method, [...known, patternOf(rule)]);
    }

  return {
    find(method, target) {
      const candidates = patterns.get(method);
      if (candidates === undefined) return undefined;
      const end = target.indexOf("?");
      const path = readPath(end === -1 ? target : target.slice(0, end));
      for (const pattern of candidates) {
        if (fits(pattern, path.segments))
          return {
            rule: pattern.rule,
            identity: identityOf(pattern, path) + (end === -1 ? "" : target.slice(end)),
          };
        if (!path.isPlain && [...readings(path)].some((reading) => fits(pattern, reading)))
          throw refused(`could also be read as ${pattern.rule.path}; send it in its plain form`);
      }
      return undefined;
    },
  };
}

/** Throws `request-invalid` for a pattern that is no plain path itself. */
export function patternOf<Rule extends Matching>(rule: Rule): Pattern<Rule> {
  const isPrefix = rule.path.endsWith("/*");
  const { raw, segments } = readPath(isPrefix ? rule.path.slice(0, -2) : rule.path);
  if (segments.some((segment) => segment === "" || /[/\\;%]/.test(segment)))
    throw refused("has an empty segment, or one with a slash, a semicolon or a percent sign in it");
  return { rule, spelt: raw.slice(0, segments.length), segments, isPrefix };
}

function fits({ segments, isPrefix }: Pattern<unknown>, path: readonly string[]): boolean {
  if (isPrefix ? path.length < segments.length : path.length !== segments.length) return false;
  return segments.every((segment, index) => segment === path[index]);
}

function identityOf({ spelt }: Pattern<unknown>, { raw, isPlain }: TargetPath): string {
  const rest = raw.slice(spelt.length).filter((segment) => segment !== "");
  return `/${[...spelt, ...(isPlain ? rest : rest.map(withoutNeedlessEscapes))].join("/")}`;
}

/** RFC 3986, 6.2.2: letters, digits and `-._~` mean the same escaped or not; so does the case of an escape. */
function withoutNeedlessEscapes(segment: string): string {
  return segment.replace(/%[0-9a-f]{2}/gi, (escaped) => {
    const character = String.fromCharCode(Number.parseInt(escaped.slice(1), 16));
    return /[\w.~-]/.test(character) ? character : escaped.toUpperCase();
  });
}

/**
 * What a figure is labelled with instead of the operation of a guarded request, `POST /orders/ann@example.com`: the
 * method and the path of its rule, `POST /orders/*`. Other operations are their own label.
 */
export function createRouteLabel(rules: readonly Matching[]): (operation: string) => string {
  const { find } = createRouteMatcher(rules);
  return (operation) => {
    const [, method, path] = /^([A-Z]+) (\/.*|sha256:[0-9a-f]{64})$/s.exec(operation) ?? [];
    if (method === undefined || path === undefined) return operation;
    if (!path.startsWith("/")) return `${method} (long path)`;
    try {
      const match = find(method, path);
      return match === undefined ? operation : `${method} ${match.rule.path}`;
    } catch {
      // Not a path that the gateway lets through: an operation of the API that looks like one.
      return operation;
    }
  };
}
