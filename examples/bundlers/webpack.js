/** webpack: the configurations of three kinds of bundle. */

/**
 * For Node, with nevertwice left out: the bundle requires the package that is installed beside it.
 *
 * @type {import("webpack").Configuration}
 */
export const leftOut = {
  mode: "production",
  target: "node",
  entry: { app: "./app.js" },
  output: { filename: "[name].cjs" },
  externals: /^nevertwice($|\/)/,
  externalsType: "commonjs",
};

/**
 * For Node, with everything in it. The second entry is the program of the worker thread that owns the SQLite file.
 *
 * @type {import("webpack").Configuration}
 */
export const whole = {
  mode: "production",
  target: "node",
  entry: {
    app: "./app.js",
    "sqlite/worker": "./node_modules/nevertwice/dist/stores/sqlite/worker.cjs",
  },
  output: { filename: "[name].cjs" },
  // The drivers are compiled code, or part of a newer Node.
  externals: ["@photostructure/sqlite", "better-sqlite3"],
  externalsType: "commonjs",
};

/**
 * For Workers. For Vercel's edge the condition is `edge-light`.
 *
 * @type {import("webpack").Configuration}
 */
export const edge = {
  mode: "production",
  target: "webworker",
  entry: { worker: "./worker.js" },
  output: { filename: "[name].mjs", module: true, library: { type: "module" } },
  experiments: { outputModule: true },
  resolve: { conditionNames: ["workerd", "import"] },
};
