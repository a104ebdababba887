/**
 * Names and words that may not appear. Only words that are always wrong are here: `result`, `lock` and `duplicate` are wrong
 * names for our ideas and right ones for others, so reviewers judge those.
 */
import ts from "typescript";
import { isFrontDoor } from "./exports-map.js";
import { allSourcesOf, commentsOf, lineAt, SRC, walk } from "./source.js";

/** Names of files that could hold anything. */
const DRAWERS = /^(utils?|helpers?|common|shared|misc|types?|interfaces?|constants?)$/;

/** Words inside identifiers, and our word for each. */
const OTHER_WORDS = {
  ttl: "lease or retention",
  backend: "store",
  "cache key": "key",
  "payload hash": "fingerprint",
  acquire: "claim",
  orphan: "lapsed",
  cleanup: "purge",
};

/** What `@nevertwice/server` exports, and the file that VitePress loads as the theme of the site. */
const OTHER_DOORS = ["packages/server/src/index.ts", "site/.vitepress/theme/index.js"];

const UNFINISHED = /\b(TODO|FIXME|XXX)\b/;
/** Biome refuses `@ts-expect-error`, enums and `any`. */
const SILENCED = /@ts-nocheck\b/;

/** @param {readonly import("./source.js").File[]} files */
export function nameProblems(files) {
  return files.flatMap(({ path }) => {
    const name = path.split("/").at(-1) ?? "";
    if (!/\.[cm]?[jt]s$/.test(name)) return [];
    if (DRAWERS.test(name.split(".")[0] ?? ""))
      return [`${path}: the name could mean anything; name the file for the one thing in it`];
    const isIndex = /^index\.[cm]?[jt]s$/.test(name);
    if (isIndex && !OTHER_DOORS.includes(path) && !(path.startsWith(SRC) && isFrontDoor(path)))
      return [`${path}: only a file that users import is called index`];
    return [];
  });
}

/** @param {readonly import("./source.js").File[]} files */
export function wordProblems(files) {
  return allSourcesOf(files).flatMap((file) => [...syntaxProblems(file), ...commentProblems(file)]);
}

/** @param {import("./source.js").File} file */
function syntaxProblems(file) {
  /** @type {string[]} */
  const problems = [];
  walk(file, (node) => {
    const reason = refusal(node);
    if (reason !== undefined) problems.push(`${file.path}:${lineAt(file, node.getStart())}: ${reason}`);
  });
  return problems;
}

/** @param {ts.Node} node */
function refusal(node) {
  if (!ts.isIdentifier(node)) return undefined;
  const words = ` ${wordsOf(node.text)} `;
  const found = Object.entries(OTHER_WORDS).find(([word]) => words.includes(` ${word} `));
  return found && `${node.text} says "${found[0]}"; our word is ${found[1]}`;
}

/**
 * `lockTTL` is "lock ttl", `MAX_TTL_MS` is "max ttl ms".
 *
 * @param {string} identifier
 */
function wordsOf(identifier) {
  return identifier
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .replace(/[_$]+/g, " ")
    .toLowerCase();
}

/** @param {import("./source.js").File} file */
function commentProblems(file) {
  return commentsOf(file).flatMap(({ text, line }) => {
    if (UNFINISHED.test(text))
      return [`${file.path}:${line}: unfinished work; finish it or remove the comment`];
    if (SILENCED.test(text)) return [`${file.path}:${line}: the type checker is silenced`];
    if (isCommentedOutCode(text)) return [`${file.path}:${line}: commented-out code`];
    return [];
  });
}

/** A line that ends as only a statement does. Examples in doc comments are fenced, and allowed. */
const STATEMENT = [
  /^(import|export|const|let|var|return|throw|await|function|class|interface|type|if|for|while|switch|try)\b.*[;{]$/,
  /^[\w.[\]]+\(.*\);$/,
  /^[\w.[\]]+ [-+*/?|&]*= .*;$/,
];

/** @param {string} comment */
function isCommentedOutCode(comment) {
  if (comment.includes("```") || comment.includes("@example")) return false;
  return comment.split("\n").some((line) => {
    const content = line.replace(/^\s*(\/\/|\/\*+|\*+\/|\*)?\s*/, "").replace(/\s*\*\/$/, "");
    return STATEMENT.some((pattern) => pattern.test(content));
  });
}
