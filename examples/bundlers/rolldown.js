/** rolldown: the options of three kinds of bundle. */

/**
 * For Node, with nevertwice left out: the bundle imports the package that is installed beside it.
 *
 * @type {import("rolldown").RolldownOptions}
 */
export const leftOut = {
  input: { app: "app.js" },
  platform: "node",
  external: [/^node:/, /^nevertwice($|\/)/],
  output: { dir: "out", format: "esm", entryFileNames: "[name].mjs" },
};

/**
 * For Node, with everything in it. The second entry is the program of the worker thread that owns the SQLite file.
 *
 * @type {import("rolldown").RolldownOptions}
 */
export const whole = {
  input: {
    app: "app.js",
    "sqlite/worker": "node_modules/nevertwice/dist/stores/sqlite/worker.cjs",
  },
  platform: "node",
  // The drivers are compiled code, or part of a newer Node.
  external: [/^node:/, "@photostructure/sqlite", "better-sqlite3"],
  output: { dir: "out", format: "cjs", entryFileNames: "[name].cjs", chunkFileNames: "[name].cjs" },
};

/**
 * For Workers. For Vercel's edge the condition is `edge-light`.
 *
 * @type {import("rolldown").RolldownOptions}
 */
export const edge = {
  input: { worker: "worker.js" },
  platform: "neutral",
  resolve: { conditionNames: ["workerd", "import"] },
  output: { dir: "out", format: "esm", entryFileNames: "[name].mjs" },
};
