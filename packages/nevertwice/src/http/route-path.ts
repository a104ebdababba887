/**
 * The normal form of a path: one resource has one spelling. Every adapter and the gateway of the server use it, for the
 * operation and for the comparison of requests. Routers may accept a path in another case, with needless escapes, and with
 * more or fewer slashes. Where the pattern of the matched route is known, its literal segments are spelt as the pattern
 * spells them. Since the router has accepted the path, no setting of the router is needed. The values of parameters stay as
 * they were sent: for a handler, `a`, `A` and `%61` may be three resources. Without a pattern the whole path stays as sent.
 */

/** One segment of a pattern. `"rest"` is a wildcard at the end, for any number of segments. */
export type PathSegment =
  | {
      /** A segment that is compared as it is. */
      readonly literal: string;
    }
  | "parameter"
  | "rest";

/** The route that a router has matched. */
export interface MatchedRoute {
  /** Its patterns. Routers allow several for one route. A pattern in no framework's syntax is a list of its segments. */
  readonly patterns: readonly (string | readonly PathSegment[])[];
  /** The path as the router saw it, if outer routers have removed their part. That part stays as it was sent. */
  readonly path?: string | undefined;
}

/**
 * `pattern`: what a framework says about the route that it has matched: a pattern, or several. Undefined if one of them is
 * not text: it is not known which one has matched.
 */
export function matchedRoute(pattern: unknown, path?: string): MatchedRoute | undefined {
  const patterns = [pattern].flat(2);
  const areTexts = patterns.length > 0 && patterns.every((each) => typeof each === "string");
  return areTexts ? { patterns: patterns as string[], path } : undefined;
}

/** The route of an Express request; undefined if the layer is not mounted on a route. */
export function expressRoute(request: object): MatchedRoute | undefined {
  const { route, url } = request as { readonly route?: { readonly path?: unknown }; readonly url?: string };
  // Outer routers have removed their part of the URL.
  return route === undefined ? undefined : matchedRoute(route.path, url?.split("?", 1)[0]);
}

/** `"expression"` is a parameter with its own regular expression, which may match slashes. */
type Segment = PathSegment | "expression";

interface RouterPattern {
  readonly segments: readonly Segment[];
  readonly endsInSlash: boolean;
}

const LITERAL = /^[\p{L}\p{M}\p{N}_.~@%!$&',;=-]+$/u;
const PARAMETER = /^(?::\w+|\{\w+\})$/;
const EXPRESSION = /^:\w+(?:\(([^()]*)\)|\{([^{}]*)\})$/;
/** Expressions that certainly match no slash: words, classes of them, and quantifiers. */
const OF_WORDS = /^(?:\\[dw]|\[(?:\w-\w|\w|\\[dw])*-?\]|\{[\d,]+\}|[\w|^$+*?-])+$/;
const REST = /^(?:\*\w*|\(\.\*\)|\{\*\w+\}|\{\w+\+\})$/;
/** Parameters beside literal text (`:id.json`): what is sent for the whole segment counts as a value. */
const MIXED = /^[\w.~@%!$&',;=:-]+$/;

/** `path` without its query. It is returned unchanged without a pattern that accepts it. */
export function normalPath(path: string, route: MatchedRoute | undefined): string {
  if (route === undefined) return path;
  const { patterns, path: routed = path } = route;
  if (!path.endsWith(routed) || !routed.startsWith("/")) return path;
  for (const pattern of patterns) {
    const normal = pattern === routed ? routed : spellLike(pattern, routed);
    if (normal !== undefined) return path.slice(0, path.length - routed.length) + normal;
  }
  return path;
}

/** Undefined if the path does not fit the pattern, or if the pattern has parts whose meaning depends on the router. */
function spellLike(pattern: string | readonly PathSegment[], path: string): string | undefined {
  const variants =
    typeof pattern === "string" ? readPattern(pattern) : [{ segments: pattern, endsInSlash: false }];
  for (const variant of variants) {
    const normal = spellAs(variant, path);
    if (normal !== undefined) return normal;
  }
  return undefined;
}

const OPTIONAL_END = /^(.*?)(?:(\/:\w+)\?|\{(\/[^{}]*)\})$/;

/** An optional part at the end makes two patterns of one. Empty for a pattern that cannot be read. */
function readPattern(text: string): readonly RouterPattern[] {
  const [, start, parameter, group] = OPTIONAL_END.exec(text) ?? [];
  if (start !== undefined)
    return [...readPattern(start + (parameter ?? group)), ...readPattern(start === "" ? "/" : start)];
  const segments = toSegments(text).map(readSegment);
  const isKnown = segments.every(
    (segment, index) => segment !== undefined && (segment !== "rest" || index === segments.length - 1),
  );
  return isKnown ? [{ segments: segments as Segment[], endsInSlash: text.endsWith("/") }] : [];
}

function readSegment(segment: string): Segment | undefined {
  if (LITERAL.test(segment)) return { literal: segment };
  if (PARAMETER.test(segment)) return "parameter";
  const [, round, curly = round] = EXPRESSION.exec(segment) ?? [];
  if (curly !== undefined) return OF_WORDS.test(curly) ? "parameter" : "expression";
  if (REST.test(segment)) return "rest";
  return MIXED.test(segment) ? "parameter" : undefined;
}

/** Undefined if the path does not fit the pattern. */
function spellAs({ segments, endsInSlash }: RouterPattern, path: string): string | undefined {
  const hasRest = segments.at(-1) === "rest";
  const named = hasRest ? segments.slice(0, -1) : segments;
  const sent = toSegments(path);
  if (hasRest) {
    // What the wildcard has matched, with a slash at its end. A lone slash belongs to the literal segment before it.
    const { head, rest } = cutHead(named, path.split("/").slice(1));
    return spelt(named, head, rest.length === 1 && rest[0] === "" ? [] : rest);
  }
  const found =
    sent.length === named.length || named.includes("expression") ? sent : sent.filter((each) => each !== "");
  const isSlashSent = named.at(-1) === "expression" ? path.endsWith("/") : endsInSlash;
  return spelt(named, found, isSlashSent ? [""] : []);
}

/** The sent segments of the named ones, without the empty ones in front of a literal, and what follows. */
function cutHead(
  named: readonly Segment[],
  sent: readonly string[],
): { readonly head: readonly string[]; readonly rest: readonly string[] } {
  const head: string[] = [];
  let next = 0;
  for (const segment of named) {
    if (typeof segment !== "string") while (sent[next] === "" && next + 1 < sent.length) next++;
    head.push(sent[next++] ?? "");
  }
  return { head, rest: sent.slice(next) };
}

function spelt(
  named: readonly Segment[],
  sent: readonly string[],
  rest: readonly string[],
): string | undefined {
  if (sent.length !== named.length) return undefined;
  const parts: string[] = [];
  for (const [index, segment] of named.entries()) {
    const found = sent[index] as string;
    if (typeof segment === "string" ? found === "" : !isSpelledLike(segment.literal, found)) return undefined;
    parts.push(typeof segment === "string" ? found : segment.literal);
  }
  return `/${[...parts, ...rest].join("/")}`;
}

/** Without the slashes at the beginning and at the end. */
function toSegments(path: string): readonly string[] {
  const inner = path.replace(/^\//, "").replace(/\/$/, "");
  return inner === "" ? [] : inner.split("/");
}

/** An encoded slash is never a spelling of anything but itself. */
function isSpelledLike(literal: string, found: string): boolean {
  if (found.toLowerCase() === literal.toLowerCase()) return true;
  try {
    return decodeURIComponent(found).toLowerCase() === decodeURIComponent(literal).toLowerCase();
  } catch {
    return false;
  }
}
