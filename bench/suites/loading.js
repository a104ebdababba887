/** What it costs to load the library: the time of the first import, and the size in a bundle. */

/** @typedef {{ runs: number }} Size */
/** @typedef {{ name: string, packages: readonly string[] }} Entry what is imported, and the packages whose versions matter */

/** @type {readonly Entry[]} */
const ENTRIES = [
  { name: "nevertwice", packages: ["nevertwice"] },
  { name: "nevertwice/stores/memory", packages: ["nevertwice"] },
  { name: "nevertwice/stores/sqlite", packages: ["nevertwice"] },
  { name: "nevertwice/stores/postgres", packages: ["nevertwice"] },
  { name: "nevertwice/stores/redis", packages: ["nevertwice"] },
  { name: "nevertwice/http/express", packages: ["nevertwice"] },
  { name: "express", packages: ["express"] },
  { name: "fastify", packages: ["fastify"] },
  { name: "steadykey", packages: ["steadykey"] },
];

export const loading = {
  name: "loading",
  title: "Loading the library",
  quick: { runs: 2 },
  /** The import of `nevertwice` to that of this package. */
  comparedWith: "express",
  ratioMeant: 0.3,
  tables: [
    { title: "Import and bundle", servers: {}, size: /** @type {Size} */ ({ runs: 21 }), entries: ENTRIES },
  ],
};
