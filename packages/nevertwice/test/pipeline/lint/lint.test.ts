import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { lintPipeline } from "../../../src/pipeline/index.ts";

const folders: string[] = [];

afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

async function folderWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "nevertwice-lint-"));
  folders.push(folder);
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

const HEAD = `[node]
id = "charge"
version = "1.0.0"
kind = "transform"

[doc]
intent = "Charges."

[ports.in]
in = {}

[ports.out]
done = {}
`;

const CONTRACT = `
[contract]
pure_core = "./code.mjs#decide"
effect_shell = "./code.mjs#act"
idempotency = { key = "id" }
`;

/** For a template literal inside one of these tests. */
const DOLLAR = "$";
const PURE = "export const decide = (order) => order;\n";
const PASS = 'export const act = (order, { emit }) => emit("done", order);\n';

/** `file:line: rule` of each finding in a node with this code. */
async function lintCode(
  code: string,
  manifest = HEAD + CONTRACT,
  more: Readonly<Record<string, string>> = {},
) {
  const folder = await folderWith({ "charge.node.toml": manifest, "code.mjs": code, ...more });
  const { findings } = await lintPipeline(join(folder, "charge.node.toml"));
  return findings.map(({ file, line, rule }) => `${file.slice(folder.length + 1)}:${line}: ${rule}`);
}

describe("lint", () => {
  it("finds nothing in an honest node", async () => {
    expect(await lintCode(PURE + PASS)).toEqual([]);
  });

  it.each([
    ["fetch", 'await fetch("https://bank.example");'],
    ["globalThis.fetch", 'await globalThis.fetch("https://bank.example");'],
    ["a WebSocket", 'new WebSocket("wss://bank.example");'],
    ["the clock", "Date.now();"],
    ["a new Date", "new Date();"],
    ["a Date without brackets", "new Date;"],
    ["a timer of the process", "process.hrtime.bigint();"],
    ["pseudo-random numbers", "Math.random();"],
    ["a UUID", "crypto.randomUUID();"],
  ])("reports a shell that uses %s directly", async (_, statement) => {
    const code = `${PURE}export async function act(order, { emit }) {\n  ${statement}\n  return emit("done", order);\n}\n`;
    expect(await lintCode(code)).toEqual(["code.mjs:3: direct-effect"]);
  });

  it.each([
    ["a comment", "// fetch(order)"],
    ["a long comment", "/* Date.now() \n */"],
    ["a string", "void 'fetch(order)';"],
    ["a template", `void \`Math.random() ${DOLLAR}{order.id} fetch(1)\`;`],
    ["a regular expression", "void /fetch\\(['\"`]/.test(order.id);"],
    ["a method of the same name", "order.fetch();"],
    ["a date of the payload", "new Date(order.at);"],
    ["the granted fetch under that name", "const fetch = context.effects.http; await fetch(order.url);"],
  ])("does not mistake %s for an effect", async (_, statement) => {
    const code = `${PURE}export async function act(order, context) {\n  ${statement}\n  return context.emit("done", order);\n}\n`;
    const http = `\n[effects]\nhttp = { allow = ["bank.example"] }\n`;
    const found = await lintCode(code, HEAD + CONTRACT + http);
    expect(found.filter((line) => line.endsWith("direct-effect"))).toEqual([]);
  });

  it("looks into the code of a template", async () => {
    const code = `${PURE}export const act = (order, { emit }) => emit("done", \`\${\`\${Date.now()}\`} \${order.id}\`);\n`;
    expect(await lintCode(code)).toEqual(["code.mjs:2: direct-effect"]);
  });

  it("follows helpers of the same file and of other files, and names the line of the effect", async () => {
    const code = `import { charge } from "./bank.mjs";
import * as clock from "./clock.mjs";
${PURE}export function act(order, { emit }) {
  stamp(order);
  return emit("done", charge(clock.read(order)));
}
function stamp(order) {
  order.at = Date.now();
}
const unused = () => fetch("https://other.example");
`;
    const more = {
      "bank.mjs": 'export { pay as charge } from "./pay.mjs";\n',
      "pay.mjs": 'const post = async (order) => fetch("https://bank.example");\nexport { post as pay };\n',
      "clock.mjs": "export const read = (order) => order;\nexport const other = () => Date.now();\n",
    };
    expect(await lintCode(code, undefined, more)).toEqual([
      "code.mjs:9: direct-effect",
      "pay.mjs:1: direct-effect",
    ]);
  });

  it("ends when functions call each other", async () => {
    const code = `${PURE}export const act = (order, { emit }) => emit("done", even(order));
function even(n) { return n === 0 ? true : odd(n - 1); }
function odd(n) { return n === 0 ? false : even(n - 1); }
`;
    expect(await lintCode(code)).toEqual([]);
  });

  it("reports clients of databases, files and processes that a shell imports by itself", async () => {
    const code = `import { readFileSync } from "node:fs";
import pg from "pg";
${PURE}export function act(order, { emit }) {
  const text = readFileSync("a");
  return emit("done", new pg.Client(text));
}
`;
    expect(await lintCode(code)).toEqual(["code.mjs:5: direct-effect", "code.mjs:6: direct-effect"]);
  });

  it("reports a core with effects, granted ones too", async () => {
    const code = `export const decide = (order, { effects }) => ({ ...order, at: effects.time.now(), n: Math.random() });\n${PASS}`;
    expect(await lintCode(code)).toEqual(["code.mjs:1: impure-core", "code.mjs:1: impure-core"]);
  });

  it("compares the declared effects with the used ones", async () => {
    const effects = '\n[effects]\ntime = true\ndb = { allow = ["main"], tables = ["charges:insert"] }\n';
    const code = `${PURE}export async function act(order, { emit, effects: { random, htpp }, ...context }) {
  context.effects.db("main", "charges:insert");
  context.effects.db("main", "charges:delete");
  return emit("done", order);
}
`;
    expect(await lintCode(code, HEAD + CONTRACT + effects)).toEqual([
      "charge.node.toml:21: effect-not-used",
      "code.mjs:2: effect-not-declared",
      "code.mjs:2: effect-not-declared",
      "code.mjs:4: effect-not-declared",
    ]);
  });

  it("does not call an effect unused if the shell hands its effects on", async () => {
    const effects = "\n[effects]\ntime = true\n";
    const code = `import { inspect } from "node:util";\n${PURE}export const act = (order, { emit, effects }) => emit("done", inspect(effects));\n`;
    expect(await lintCode(code, HEAD + CONTRACT + effects)).toEqual([]);
  });

  it("compares the out-ports with what the shell emits", async () => {
    const manifest = (HEAD + CONTRACT).replace("done = {}", "done = {}\nlate = {}");
    const code = `${PURE}export const act = (order, { emit }) => emit("don", order);\n`;
    expect(await lintCode(code, manifest)).toEqual([
      "charge.node.toml:13: port-not-emitted",
      "charge.node.toml:14: port-not-emitted",
      "code.mjs:2: port-not-declared",
    ]);
    const computed = `${PURE}export const act = (order, { emit }) => emit(order.port, order);\n`;
    expect(await lintCode(computed, manifest)).toEqual([]);
  });

  it("reports a node that writes and has no key", async () => {
    const bare = (HEAD + CONTRACT).replace(/idempotency.*\n/, "");
    const code = `${PURE}export const act = async (order, { emit, effects }) => emit("done", await effects.http(order.url));\n`;
    const http = (rest: string) => `${bare}\n[effects]\nhttp = { allow = ["bank.example"]${rest} }\n`;
    expect(await lintCode(code, http(""))).toEqual(["charge.node.toml:15: key-missing"]);
    expect(await lintCode(code, http(', methods = ["GET"]'))).toEqual([]);
  });

  it("reports a node that does not say what it is for", async () => {
    const manifest = (HEAD + CONTRACT).replace('[doc]\nintent = "Charges."\n', "");
    expect(await lintCode(PURE + PASS, manifest)).toEqual(["charge.node.toml:1: intent-missing"]);
  });

  it("leaves out the rules that the node allows", async () => {
    const code = `${PURE}export const act = (order, { emit }) => emit("done", Date.now());\n`;
    const allowed = `${HEAD}${CONTRACT}\n[lint]\nallow = ["direct-effect"]\n`;
    expect(await lintCode(code, allowed)).toEqual([]);
  });

  it("reports the problems of a manifest first, with their place", async () => {
    const folder = await folderWith({ "charge.node.toml": HEAD });
    const { findings } = await lintPipeline(join(folder, "charge.node.toml"));
    expect(findings).toMatchObject([{ rule: "manifest", line: 1, problem: "contract is missing" }]);
    const missing = await lintPipeline(join(folder, "network.toml"));
    expect(missing.findings).toMatchObject([{ rule: "manifest", problem: "there is no such file" }]);
  });

  it("looks at each node of a network, and at a manifest that is used twice once", async () => {
    const network = `[network]
id = "shop"
version = "1.0.0"

[nodes]
one = { use = "./charge.node.toml" }
two = { use = "./charge.node.toml" }

[expose]
in = { one = "one.in", two = "two.in" }
out = { one = "one.done", two = "two.done" }
`;
    const code = `${PURE}export const act = (order, { emit }) => emit("done", Date.now());\n`;
    const folder = await folderWith({
      "shop.toml": network,
      "charge.node.toml": HEAD + CONTRACT,
      "code.mjs": code,
    });
    const { nodes, findings } = await lintPipeline(join(folder, "shop.toml"));
    expect({ nodes, findings }).toMatchObject({
      nodes: 1,
      findings: [{ rule: "direct-effect", node: "charge", line: 2 }],
    });
  });
});
