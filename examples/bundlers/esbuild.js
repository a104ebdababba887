/** esbuild: the options of `build` for three kinds of bundle. */

/**
 * For Node, with nevertwice left out: the bundle imports the package that is installed beside it.
 *
 * @type {import("esbuild").BuildOptions}
 */
export const leftOut = {
  entryPoints: { app: "app.js" },
  outdir: "out",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  external: ["nevertwice", "nevertwice/*"],
};

/**
 * For Node, with everything in it. The second entry is the program of the worker thread that owns the SQLite file.
 *
 * @type {import("esbuild").BuildOptions}
 */
export const whole = {
  entryPoints: {
    app: "app.js",
    "sqlite/worker": "node_modules/nevertwice/dist/stores/sqlite/worker.cjs",
  },
  outdir: "out",
  outExtension: { ".js": ".cjs" },
  bundle: true,
  platform: "node",
  format: "cjs",
  // The drivers are compiled code, or part of a newer Node.
  external: ["@photostructure/sqlite", "better-sqlite3"],
};

/**
 * For Workers. For Vercel's edge the condition is `edge-light`.
 *
 * @type {import("esbuild").BuildOptions}
 */
export const edge = {
  entryPoints: { worker: "worker.js" },
  outdir: "out",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "browser",
  format: "esm",
  conditions: ["workerd"],
};
