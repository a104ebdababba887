/** Bundles programs and subpaths of the package for a runtime, as the bundlers of Workers and Vercel do: by its conditions. */
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

/** @typedef {"workerd" | "edge-light"} EdgeRuntime */

/**
 * The conditions that wrangler and Next set for each.
 *
 * @type {Readonly<Record<EdgeRuntime, readonly string[]>>}
 */
const CONDITIONS = {
  workerd: ["workerd", "worker", "browser", "import", "module", "default"],
  "edge-light": ["edge-light", "browser", "import", "module", "default"],
};

const HOME = fileURLToPath(new URL("../../packages/nevertwice/", import.meta.url));

/**
 * The code of a bundle, and the modules that it still imports, other than the runtime's own.
 *
 * @param {string} input a subpath of the package, or the path of a program that imports them; both are of the build
 * @param {EdgeRuntime} runtime
 * @param {"esm" | "iife"} [format]
 * @returns {Promise<{ code: string, imports: readonly string[] }>}
 */
export async function bundleForEdge(input, runtime, format = "esm") {
  const build = await rolldown({
    input,
    cwd: HOME,
    platform: "neutral",
    logLevel: "silent",
    external: /^(node|cloudflare):/,
    resolve: { conditionNames: [...CONDITIONS[runtime]], mainFields: ["module", "main"] },
  });
  const { output } = await build.generate({ format, codeSplitting: false });
  await build.close();
  const [{ code, imports, dynamicImports }] = output;
  // A module of Node in CommonJS stays a call of the bundler's own `require`, which fails on these runtimes.
  const required = [...code.matchAll(/require\w*\("(node:[^"]+)"\)/g)].map(([, name = ""]) => name);
  const left = [...imports, ...dynamicImports, ...required];
  return { code, imports: left.filter((name) => !name.startsWith("cloudflare:")) };
}
