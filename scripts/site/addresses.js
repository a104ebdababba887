/** Where each file of the repository is on the site, and what its links become there. */
import { posix } from "node:path";

export const REPOSITORY = "https://github.com/nevertwice/nevertwice";
/** Where the workflow publishes the site. */
export const SITE = "https://nevertwice.github.io/nevertwice/";
export const BASE = new URL(SITE).pathname;

/** @type {Readonly<Record<string, string | undefined>>} */
const OTHERS = {
  "ARCHITECTURE.md": "architecture.md",
  "CHANGELOG.md": "changelog.md",
  "CONTRIBUTING.md": "contributing.md",
  "README.md": "index.md",
  "SECURITY.md": "security-policy.md",
  "examples/README.md": "examples.md",
};

/**
 * The file of the site for a page of the repository: `docs/http.md` is `http.md`, `bench/results/redis.md` is
 * `results/redis.md`, `ARCHITECTURE.md` is `architecture.md`. Undefined if the site does not show the file.
 *
 * @param {string} path
 * @returns {string | undefined}
 */
export function siteFile(path) {
  const file = /^docs\/([\w./-]+\.md)$/.exec(path)?.[1];
  if (file !== undefined) return file;
  const results = /^bench\/(results\/[\w-]+\.md)$/.exec(path)?.[1];
  if (results !== undefined) return results;
  return OTHERS[path];
}

/**
 * Rewrites the links of a page, outside code, from the repository to the site. A link to a file that the site does not show
 * leads to GitHub.
 *
 * @param {string} path of the page in the repository
 * @param {string} markdown
 * @param {(target: string, anchor: string) => string | undefined} addressOf of a file that the site shows
 */
export function rewriteLinks(path, markdown, addressOf) {
  let isFenced = false;
  const lines = markdown.split("\n").map((line) => {
    const isFence = /^\s*(```|~~~)/.test(line);
    if (isFence) isFenced = !isFenced;
    if (isFenced || isFence) return line;
    return line.replace(/(`[^`]*`)|\]\(([^)\s]+)\)/g, (whole, code, target) => {
      if (code !== undefined || target === undefined) return whole;
      return `](${siteTarget(path, target, addressOf)})`;
    });
  });
  return lines.join("\n");
}

/**
 * @param {string} path
 * @param {string} target
 * @param {(target: string, anchor: string) => string | undefined} addressOf
 */
function siteTarget(path, target, addressOf) {
  if (/^[a-z]+:/i.test(target) || target.startsWith("#")) return target;
  const [name = "", anchor] = target.split("#");
  const aim = posix.normalize(posix.join(posix.dirname(path), decodeURI(name)));
  const hash = anchor === undefined ? "" : `#${anchor}`;
  if (aim.startsWith("docs/images/")) return target;
  const kind = /\.[a-z]+$/i.test(aim) ? "blob" : "tree";
  return addressOf(aim, hash) ?? `${REPOSITORY}/${kind}/main/${aim.replace(/\/$/, "")}${hash}`;
}

/**
 * A link between two files of the site, for VitePress.
 *
 * @param {string} from a file of the site
 * @param {string} to
 */
export function relativeLink(from, to) {
  const link = posix.relative(posix.dirname(from), to);
  return link.startsWith(".") ? link : `./${link}`;
}
