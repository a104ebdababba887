/** Checks that links of documents lead to files and sections that exist, and so do the paths in the maps of the code. */

/** Documents that must exist. */
const NEEDED = ["README.md", "ARCHITECTURE.md"];

/** Documents in which a name in backticks that looks like a path must be one. */
const MAPS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/** Folders that a path in such a document may be relative to. */
const BASES = ["", "packages/nevertwice/", "packages/nevertwice/src/"];

/** @param {readonly import("./source.js").File[]} files */
export function linkProblems(files) {
  const missing = NEEDED.filter((needed) => !files.some(({ path }) => path === needed));
  return [
    ...missing.map((path) => `${path} is missing`),
    ...files.filter(({ path }) => path.endsWith(".md")).flatMap((file) => brokenLinks(file, files)),
    ...files.filter(({ path }) => MAPS.includes(path)).flatMap((file) => unknownPaths(file, files)),
  ];
}

/**
 * @param {import("./source.js").File} file
 * @param {readonly import("./source.js").File[]} files
 */
function brokenLinks(file, files) {
  return linesOf(file.text).flatMap(({ text, line }) =>
    [...text.replace(/`[^`]*`/g, "").matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = ""]) => {
      if (/^[a-z]+:/i.test(target)) return [];
      const [path = "", anchor] = target.split("#");
      const aim = path === "" ? file.path : new URL(path, `file:///${file.path}`).pathname.slice(1);
      const found = files.find((candidate) => candidate.path === aim);
      if (found === undefined && !isFolder(aim, files))
        return [`${file.path}:${line}: the link to ${target} is broken`];
      if (anchor === undefined || found === undefined || anchorsOf(found.text).has(anchor)) return [];
      return [`${file.path}:${line}: ${aim} has no section #${anchor}`];
    }),
  );
}

/**
 * @param {import("./source.js").File} file
 * @param {readonly import("./source.js").File[]} files
 */
function unknownPaths(file, files) {
  const folders = new Set(
    files.flatMap(({ path }) =>
      BASES.filter((base) => path.startsWith(base)).map((base) => firstFolder(path, base)),
    ),
  );
  return linesOf(file.text).flatMap(({ text, line }) =>
    [...text.matchAll(/`([^`\s]+)`/g)].flatMap(([, name = ""]) => {
      if (!looksLikeOurPath(name, folders) || BASES.some((base) => exists(base + name, files))) return [];
      return [`${file.path}:${line}: there is no ${name}`];
    }),
  );
}

/**
 * @param {string} name
 * @param {ReadonlySet<string>} folders
 */
function looksLikeOurPath(name, folders) {
  if (!/^[\w.*-]+(\/[\w.*-]+)*\/?$/.test(name) || !name.includes("/")) return false;
  const [first = ""] = name.split("/");
  return folders.has(first) || /\.(ts|js|md|json|ya?ml)$/.test(name);
}

/**
 * @param {string} path
 * @param {readonly import("./source.js").File[]} files
 */
function exists(path, files) {
  const whole = path.replace(/\/$/, "");
  const pattern = new RegExp(
    `^${whole.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", "[^/]*")}(\\.ts|\\.js|/.*)?$`,
  );
  return files.some((file) => pattern.test(file.path));
}

/**
 * @param {string} path
 * @param {readonly import("./source.js").File[]} files
 */
function isFolder(path, files) {
  const prefix = path === "" || path.endsWith("/") ? path : `${path}/`;
  return files.some((file) => file.path.startsWith(prefix));
}

/**
 * @param {string} path
 * @param {string} base
 */
function firstFolder(path, base) {
  const rest = path.slice(base.length);
  return rest.includes("/") ? (rest.split("/")[0] ?? "") : "";
}

/**
 * The anchors that GitHub gives to headings: lower case, without punctuation, with hyphens for spaces.
 *
 * @param {string} markdown
 */
export function anchorsOf(markdown) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  /** @type {Set<string>} */
  const anchors = new Set();
  for (const { text } of linesOf(markdown)) {
    const heading = /^#{1,6}\s+(.*?)\s*#*$/.exec(text)?.[1];
    if (heading === undefined) continue;
    const slug = anchorOf(heading);
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    anchors.add(count === 0 ? slug : `${slug}-${count}`);
  }
  return anchors;
}

/** @param {string} heading */
export function anchorOf(heading) {
  return heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replace(/\s/g, "-");
}

/**
 * The lines outside fenced blocks.
 *
 * @param {string} markdown
 */
function linesOf(markdown) {
  let isFenced = false;
  return markdown.split("\n").flatMap((text, index) => {
    const isFence = /^\s*(```|~~~)/.test(text);
    if (isFence) isFenced = !isFenced;
    return isFenced || isFence ? [] : [{ text, line: index + 1 }];
  });
}
