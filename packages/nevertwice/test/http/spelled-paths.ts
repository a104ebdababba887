/**
 * Random spellings of paths for the tests of routes. An oracle is the application itself: asked without a key, it says which
 * handler a path reaches, and with which parameters. With a key, the layer must never answer for another resource, and
 * never run one resource twice.
 */
import { connect } from "node:net";
import { expect } from "vitest";
import { type Random, seededRandom } from "../../src/testing/random.ts";

/** The routes that every application has, with its own syntax for parameters and wildcards. */
export const ROUTES = ["/payments/:id/capture", "/payments/:id", "/payments", "/Files/*"] as const;

export interface Told {
  readonly status: number;
  /** JSON of `{ route, params, run }`, as a handler answers. */
  readonly text: string;
}

/** Sends a POST for this path. With a key, `named` asks the application whose operation has a name. */
export type Asking = (path: string, how?: { readonly key: string; readonly named: boolean }) => Promise<Told>;

/** Sends the path as it is. A client with a URL parser would resolve its dot segments. */
export async function post(port: number, path: string, key: string | undefined): ReturnType<Asking> {
  const lines = key === undefined ? "" : `Idempotency-Key: ${key}\r\n`;
  const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${lines}Content-Length: 0\r\n\r\n`;
  const socket = connect(port, "127.0.0.1", () => socket.write(head));
  let answer = "";
  for await (const chunk of socket.setEncoding("utf8")) answer += chunk;
  const [top = "", text = ""] = answer.split("\r\n\r\n");
  return {
    status: Number(top.split(" ")[1]),
    text: text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1),
  };
}

const PIECES = ["a", "A", "b", "%61", "%2F", "%2f", "%20", "~", ".", "-", "%C3%A9", "%c3%a9", "1"];
const DELIMITERS = ["payments", "capture", ";v=1", "+", "%25", "%2561", ",", "@", ":", "=", "'", "(", "*"];

function randomValue(random: Random): string {
  const pieces = Array.from({ length: random.between(1, 3) }, () => random.pick([...PIECES, ...DELIMITERS]));
  return pieces.join("");
}

/** Half of them keep their case, for routers that tell cases apart. */
function randomLiteral(random: Random, literal: string): string {
  const isCased = random.chance(0.5);
  const escaped = random.chance(0.2) ? random.between(0, literal.length - 1) : -1;
  return [...literal]
    .map((letter, index) => {
      const spelt = isCased && random.chance(0.3) ? letter.toUpperCase() : letter;
      return index === escaped ? `%${spelt.charCodeAt(0).toString(16)}` : spelt;
    })
    .join("");
}

interface Resource {
  readonly route: (typeof ROUTES)[number];
  readonly values: readonly string[];
}

const isValue = (segment: string) => segment.startsWith(":") || segment === "*";

function pathOf({ route, values }: Resource, literal: (text: string) => string, slash: () => string): string {
  const left = [...values];
  return route
    .split("/")
    .slice(1)
    .map((segment) => slash() + (isValue(segment) ? (left.shift() ?? "") : literal(segment)))
    .join("");
}

function randomResource(random: Random): Resource {
  const route = random.pick(ROUTES);
  const values = route.split("/").filter(isValue);
  return { route, values: values.map(() => randomValue(random)) };
}

/** Another value that looks alike: one that a router, a file system or a proxy may take for the same. */
function similarTo(random: Random, { route, values }: Resource): Resource {
  const isWild = route.endsWith("*");
  const changes: ((value: string) => string)[] = [
    (value) => value.toUpperCase(),
    (value) => value.toLowerCase(),
    (value) => value.replace(/%(?!25)[0-9a-f]{2}/i, (escaped) => decodeURIComponent(escaped)),
    (value) => value.replace(/(?<!%|%.)[a-z.~-]/i, (character) => `%${character.charCodeAt(0).toString(16)}`),
    (value) => (isWild ? `${value}/` : value),
    (value) => (isWild ? `/${value}` : value),
  ];
  const changed = values.map((value) => {
    try {
      return random.pick(changes)(value);
    } catch {
      // Half of a character that two escapes stand for.
      return value;
    }
  });
  return { route, values: changed };
}

/** What an answer says about its path, without the number of the run. Undefined if no handler was reached. */
function resourceIn({ status, text }: Told): unknown {
  if (status !== 201) return undefined;
  const { route, params } = JSON.parse(text);
  return [route, params];
}

function plainPath(resource: Resource): string {
  return pathOf(
    resource,
    (text) => text,
    () => "/",
  );
}

function randomSpelling(random: Random, resource: Resource): string {
  // A wildcard takes slashes as part of its value.
  const isWild = resource.route.endsWith("*");
  const path = pathOf(
    resource,
    (text) => randomLiteral(random, text),
    () => (!isWild && random.chance(0.05) ? "//" : "/"),
  );
  return isWild || random.chance(0.6) ? path : `${path}/`;
}

interface SpellingRun {
  readonly seed: number;
  /** How many paths to ask for. */
  readonly count: number;
  /** Whether there is an application whose operation has a name. */
  readonly hasNamed?: boolean;
}

/** Rejects with the seed and the path if one resource ran twice, or if an answer is about another resource. */
export async function expectOneIdentityEach(
  ask: Asking,
  { seed, count, hasNamed = true }: SpellingRun,
): Promise<void> {
  const random = seededRandom(seed);
  const done = { spelt: 0, similar: 0 };

  /** Asks for both paths with one key. `isSame`: they are one resource. */
  async function compare(index: number, plain: string, path: string, isSame: boolean): Promise<void> {
    const where = `seed ${seed}: ${path}, meant as ${plain}`;
    const first = await ask(plain, { key: "k", named: false });
    const told = await ask(path, { key: "k", named: false });
    expect(JSON.stringify(resourceIn(told)), where).toBe(JSON.stringify(resourceIn(await ask(path))));
    expect(told.text === first.text, `${where}: is one resource`).toBe(isSame);
    if (!hasNamed) return;
    const key = `${isSame ? "same" : "similar"}-${index}`;
    await ask(plain, { key, named: true });
    expect((await ask(path, { key, named: true })).status, where).toBe(isSame ? 201 : 422);
  }

  for (let index = 0; index < count; index++) {
    const resource = randomResource(random);
    const plain = plainPath(resource);
    const spelt = randomSpelling(random, resource);
    const similar = plainPath(similarTo(random, resource));
    const meant = resourceIn(await ask(plain));
    if (meant === undefined) continue;
    const reached = resourceIn(await ask(spelt));
    // It may reach another route: a wildcard takes what a literal segment does not accept.
    const isSame = JSON.stringify(reached) === JSON.stringify(meant);
    if (reached !== undefined) await compare(index, plain, spelt, isSame);
    if (isSame && spelt !== plain) done.spelt++;
    if (similar === plain || resourceIn(await ask(similar)) === undefined) continue;
    await compare(index, plain, similar, false);
    done.similar++;
  }
  expect(done.spelt, "other spellings that were accepted").toBeGreaterThan(count / 20);
  expect(done.similar, "similar values that were accepted").toBeGreaterThan(count / 10);
}
