/** Type-checks and runs every complete example of the documents. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import ts from "typescript";
import { ROOT, run, runTool } from "../command.js";

/** @typedef {{ name: string, language: "ts" | "js", code: string, isRun: boolean }} Example */

const LONGEST_RUN_MS = 30_000;
/** Most of an example's time is the start of its process. */
const AT_ONCE = 3;

/** The bindings of the Workers in the examples. `wrangler types` writes such a file for each Worker. */
const BINDINGS_FILE = "worker-configuration.d.ts";
const BINDINGS = `declare module "cloudflare:workers" {
  export const env: {
    readonly NEVERTWICE: import("nevertwice/stores/durable-objects").DurableObjectNamespace;
    readonly DB: import("nevertwice/stores/d1").D1Database;
  };
}
`;

/**
 * The fenced blocks that import nevertwice; the others are fragments of a program. A block with `server` after its
 * language needs a server, so it is type-checked and not run. A block with the path of a file shows that file, which has its own tests.
 *
 * @param {string} path
 * @param {string} markdown
 * @returns {readonly Example[]}
 */
export function examplesOf(path, markdown) {
  const blocks = [...markdown.matchAll(/^```(ts|typescript|js|javascript)\b([^\n]*)\n([\s\S]*?)^```$/gm)];
  return blocks.flatMap(({ 1: fence = "", 2: more = "", 3: code = "", index }) => {
    if (more.includes("/") || !/\bfrom "(@nevertwice\/server|nevertwice(\/[\w/-]+)?)"/.test(code)) return [];
    const line = markdown.slice(0, index).split("\n").length;
    const name = `${path.replace(/\.md$/, "").replaceAll("/", "-").toLowerCase()}-line-${line}`;
    return [{ name, language: fence.startsWith("t") ? "ts" : "js", code, isRun: !/\bserver\b/.test(more) }];
  });
}

/**
 * @param {readonly Example[]} examples
 * @param {{ areSmall?: boolean }} [options] small examples end by themselves and are run in one process, which saves its start
 */
export async function exampleProblems(examples, { areSmall = false } = {}) {
  await mkdir(`${ROOT}.cache`, { recursive: true });
  // Inside the repository, so that `nevertwice` resolves to the workspace.
  const folder = await mkdtemp(`${ROOT}.cache/examples-`);
  try {
    await writeFile(`${folder}/${BINDINGS_FILE}`, BINDINGS);
    for (const { name, language, code } of examples) await writeFile(`${folder}/${name}.${language}`, code);
    const problems = [
      ...(await typeProblems(folder, "ts", examples)),
      ...(await typeProblems(folder, "js", examples)),
    ];
    const runs = examples.filter(({ isRun }) => isRun);
    if (areSmall) return [...problems, ...(await smallRunProblems(folder, runs))];
    /** @type {(readonly string[])[]} in the order of the examples, whichever ends first */
    const found = [];
    const waiting = runs.entries();
    const lane = async () => {
      for (const [i, example] of waiting) found[i] = await runProblems(folder, example);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, lane));
    return [...problems, ...found.flat()];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * TypeScript is checked with strict settings, since readers use them; JavaScript has no annotations.
 *
 * @param {string} folder
 * @param {Example["language"]} language
 * @param {readonly Example[]} examples
 */
async function typeProblems(folder, language, examples) {
  const files = examples
    .filter((example) => example.language === language)
    .map(({ name }) => `${name}.${language}`);
  if (files.length === 0) return [];
  const options =
    language === "ts"
      ? { strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true }
      : { strict: true, noImplicitAny: false, allowJs: true, checkJs: true };
  const config = {
    compilerOptions: {
      ...options,
      noEmit: true,
      target: "es2023",
      module: "nodenext",
      types: ["node"],
      typeRoots: [`${ROOT}node_modules/@types`],
      skipLibCheck: true,
    },
    files: [...files, BINDINGS_FILE],
  };
  const path = `${folder}/tsconfig.${language}.json`;
  await writeFile(path, JSON.stringify(config));
  const { code, output } = await runTool("typescript7/bin/tsc", ["-p", path], { cwd: folder });
  return code === 0 ? [] : [output.trim()];
}

/**
 * @param {string} folder
 * @param {readonly Example[]} examples
 */
async function smallRunProblems(folder, examples) {
  for (const example of examples) await writeProgram(folder, example);
  const program = `for (const name of ${JSON.stringify(examples.map(({ name }) => name))})
  await import(\`./\${name}.run.js\`).catch((error) => {
    process.exitCode = 1;
    console.error(\`\${name} fails when it is run:\\n\${error.stack}\`);
  });
process.exit();
`;
  await writeFile(`${folder}/all.run.js`, program);
  const ran = await run(process.execPath, [`${folder}/all.run.js`], {
    cwd: folder,
    timeoutMs: 4 * LONGEST_RUN_MS,
  });
  return ran.code === 0 ? [] : [ran.output.trim()];
}

/**
 * @param {string} folder
 * @param {Example} example
 */
async function runProblems(folder, example) {
  const file = await writeProgram(folder, example);
  const ran = await run(process.execPath, [file], { cwd: folder, timeoutMs: LONGEST_RUN_MS });
  return ran.code === 0 ? [] : [`${example.name} fails when it is run:\n${ran.output.trim()}`];
}

/**
 * @param {string} folder
 * @param {Example} example
 */
async function writeProgram(folder, { name, language, code }) {
  const file = `${folder}/${name}.run.js`;
  const { outputText } = ts.transpileModule(code, {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
  });
  await writeFile(file, language === "ts" ? outputText : code);
  return file;
}
