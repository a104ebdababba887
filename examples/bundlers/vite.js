/** Vite: a server for Node, with nevertwice left out, which is what Vite does with all packages unless it is told otherwise. */

/** @type {import("vite").UserConfig} */
export const leftOut = {
  build: { ssr: "app.js", outDir: "out", rolldownOptions: { output: { entryFileNames: "app.mjs" } } },
};
