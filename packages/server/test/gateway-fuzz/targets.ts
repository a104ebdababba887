/** Request targets: the paths that have rules, in every spelling that some service may understand. */
import type { Random } from "./random.ts";

const PATHS = ["/payments", "/payments", "/payments/7", "/orders", "/api/x", "/api", "/free", "/"] as const;
const HOSTS = ["http://localhost", "HTTP://LOCALHOST:80", "http://user@localhost", "https://other", "x://"];
const EXTRAS = ["", "", "", "&x=%zz", "&x=/../payments", "&x=a%00b", "#part", "&x=\xff", "&x;y", "?x"];

type Spelling = (path: string, random: Random) => string;

/** Puts `text` in front of a slash of the path. */
const beforeSlash =
  (text: string): Spelling =>
  (path, random) => {
    const slashes = [...path].flatMap((letter, index) => (letter === "/" ? [index] : []));
    const at = slashes.length === 0 ? 0 : random.pick(slashes);
    return path.slice(0, at) + text + path.slice(at);
  };
const atEnd =
  (text: string): Spelling =>
  (path) =>
    path + text;
const letter =
  (spell: (letter: string, random: Random) => string): Spelling =>
  (path, random) => {
    const at = random.below(path.length);
    return path.slice(0, at) + spell(path.charAt(at), random) + path.slice(at + 1);
  };
const escaped = (one: string) => `%${one.charCodeAt(0).toString(16).padStart(2, "0")}`;

const SPELLINGS: readonly Spelling[] = [
  letter(escaped),
  letter((one) => escaped(one).toUpperCase()),
  letter((one) => escaped(escaped(one).charAt(0)) + escaped(one).slice(1)),
  letter((one) => [...escaped(one)].map(escaped).join("")),
  letter((one) => one.toUpperCase()),
  letter(
    (one, random) => one + random.pick(["%zz", "%", "%ff", "\xff", "%c0%af", "%00", "%20", "\\", "%5c"]),
  ),
  ...["/.", "/", "/x/..", "/%ff/..", "/x/%2e%2e", "/x/.%2E", "/..", "/x/..;y", "/x/%252e%252e"].map(
    beforeSlash,
  ),
  ...["/payments/..", "/x;/..", "\\", "/x\\..", "/%2e", ";", "/%", "/x%2f.."].map(beforeSlash),
  ...["/", "//", "/.", "/x/..", ";x=1", ";", "%3bx", "/%ff", "%2f", "%5c", "/;x", ";x/..", ".", "%3f"].map(
    atEnd,
  ),
  (path) => path.replaceAll("/", "%2f"),
  (path) => path.replace(/\/(?=.)/g, "\\"),
  (path) => path.slice(1),
];

/** A target whose query contains the id of its case. */
export function targetFor(random: Random, id: string): string {
  if (random.chance(0.02)) return random.pick(["*", "localhost:80", "//", "?", "/\x7f", "http://"]);
  let path: string = random.pick(PATHS);
  for (let left = random.pick([0, 0, 1, 1, 2, 3]); left > 0; left--)
    path = random.pick(SPELLINGS)(path, random);
  const start = random.chance(0.08) ? random.pick(HOSTS) : "";
  return `${start}${path}?case=${id}${random.pick(EXTRAS)}`;
}
