/**
 * Which rule fits a request. Services read one path in many spellings, so a rule fits all of them: what is escaped
 * without need, doubled or trailing slashes, dots, and the case of letters make no difference.
 */
import type { GatewayRule } from "../gateway-rules.ts";

export type Matching = Pick<GatewayRule, "path" | "methods">;

/** The first of them that fits. */
export function firstMatch<Rule extends Matching>(
  rules: readonly Rule[],
  method: string,
  target: string,
): Rule | undefined {
  const fits = rules.filter(({ methods }) => methods.includes(method));
  if (fits.length === 0) return undefined;
  const path = plainPath(target);
  return fits.find((rule) => isMatch(rule.path, path));
}

function isMatch(pattern: string, path: string): boolean {
  const isPrefix = pattern.endsWith("/*");
  const wanted = plainPath(isPrefix ? pattern.slice(0, -1) : pattern);
  if (!isPrefix) return path === wanted;
  return wanted === "/" || path === wanted || path.startsWith(`${wanted}/`);
}

/** What every spelling of a path comes to. */
function plainPath(target: string): string {
  const start = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i.exec(target)?.[0].length ?? 0;
  const [sent = ""] = target.slice(start).split(/[?#]/, 1);
  const parts: string[] = [];
  for (const part of unescaped(sent).toLowerCase().split(/[/\\]/)) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

function unescaped(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
