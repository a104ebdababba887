/** The store's worker thread is a separate file, which a bundle would not contain. */

/** @type {{ serverExternalPackages: string[] }} */
const config = { serverExternalPackages: ["nevertwice"] };

// biome-ignore lint/style/noDefaultExport: Next requires a default export.
export default config;
