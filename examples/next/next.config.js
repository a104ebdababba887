/** The store's worker thread is a file of its own, which a bundle would not have. */

/** @type {{ serverExternalPackages: string[] }} */
const config = { serverExternalPackages: ["nevertwice"] };

// biome-ignore lint/style/noDefaultExport: that is how Next is told.
export default config;
