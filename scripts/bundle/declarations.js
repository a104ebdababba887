/** The declarations of the package, for CommonJS and for ES modules. */
import { posix } from "node:path";
import { rolldown } from "rolldown";
import { dts } from "rolldown-plugin-dts";
import { BUILD } from "./places.js";

/**
 * The declarations of the subpaths, and chunks of those that they share. What no type of a subpath needs is left out.
 *
 * @param {readonly string[]} subpaths their sources without extension
 * @returns {Promise<ReadonlyMap<string, string>>} the text of each file
 */
export async function commonjsDeclarations(subpaths) {
  const build = await rolldown({
    input: Object.fromEntries(subpaths.map((name) => [name, `${BUILD}${name}.d.ts`])),
    external: /^[a-z@]/,
    logLevel: "silent",
    plugins: [dts({ dtsInput: true })],
  });
  const { output } = await build.generate({
    entryFileNames: "[name].d.cts",
    chunkFileNames: "chunks/[name].d.cts",
  });
  await build.close();
  return new Map(
    output.flatMap((file) => (file.type === "chunk" ? [[file.fileName, shortened(file.code)]] : [])),
  );
}

/**
 * The bundler says before each part which file it comes from, and indents by two spaces.
 *
 * @param {string} text
 */
export function shortened(text) {
  return text.replace(/^\/\/.*\n/gm, "").replace(/^(?: {2})+/gm, (spaces) => "\t".repeat(spaces.length / 2));
}

/**
 * An ES module has the types of the CommonJS module with the same exports, so that a value of one is a value of the other.
 *
 * @param {string} name of the file, without extension
 * @param {string} commonjs the same of the CommonJS module
 */
export function moduleDeclaration(name, commonjs) {
  return /** @type {const} */ ([`${name}.d.ts`, `export * from "${pathBetween(name, commonjs)}.cjs";\n`]);
}

/**
 * @param {string} from
 * @param {string} to
 */
export function pathBetween(from, to) {
  const path = posix.relative(posix.dirname(from), to);
  return path.startsWith(".") ? path : `./${path}`;
}
