/**
 * `node scripts/weight.js`: what the parts of the front door weigh in a bundle for pages and Workers, minified and gzipped. It
 * replaces the modules of one part after another by empty functions and weighs what is left.
 */
import { readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { rolldown } from "rolldown";
import { SOURCES } from "./bundle/places.js";

/** @type {readonly (readonly [name: string, modules: RegExp])[]} by the path of a module in `src` */
const PARTS = [
  [
    "transactions",
    /^(transaction\/|core\/(transaction|step-transaction|other-database|encoded-step)|functions\/wrap-t)/,
  ],
  ["locks, marks and claims", /^(functions\/(exclusive|mark|claim)|core\/batch)\./],
  [
    "option checks, `require`, `reconcile`",
    /^core\/(requirement|doctor|durability|did-you-mean|describe-unkeepable|argument-checks|reconcile|hold)\./,
  ],
  ["steps", /^core\/(steps|step-errors|kept-steps)\./],
  ["the calls of operators", /^core\/(operator|record-view)\./],
  ["`wrap`, `@idempotent`", /^functions\/(wrap|decorator)\./],
  ["key builders", /^core\/key\./],
  ["what sagas and the outbox need", /^core\/(saga-door|enqueue)\./],
];

/** @param {readonly RegExp[]} leftOut */
async function weigh(leftOut) {
  const build = await rolldown({
    input: `${SOURCES}index.ts`,
    platform: "browser",
    external: /^@noble\//,
    resolve: { alias: { "#platform": `${SOURCES}platform/web.ts` } },
    logLevel: "silent",
    plugins: [
      {
        name: "left-out",
        async load(id) {
          const path = id.slice(SOURCES.length);
          if (!leftOut.some((modules) => modules.test(path))) return null;
          const names = (await readFile(id, "utf8")).matchAll(
            /^export (?:async )?(?:function|const|class) (\w+)/gm,
          );
          return Array.from(names, ([, name]) => `export const ${name} = () => {};`).join("\n");
        },
      },
    ],
  });
  const { output } = await build.generate({ format: "esm", minify: true, codeSplitting: false });
  await build.close();
  return gzipSync(output[0].code, { level: 9 }).length;
}

const kilobytes = (/** @type {number} */ bytes) => `${(bytes / 1_000).toFixed(1)} kB`;

let before = await weigh([]);
console.log(`${kilobytes(before).padStart(8)}  everything`);
for (const [index, [name]] of PARTS.entries()) {
  const left = await weigh(PARTS.slice(0, index + 1).map(([, modules]) => modules));
  console.log(`${kilobytes(before - left).padStart(8)}  ${name}`);
  before = left;
}
console.log(`${kilobytes(before).padStart(8)}  what is left: a guard that can only run work once`);
