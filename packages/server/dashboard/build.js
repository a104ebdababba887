/** Builds the dashboard into the package: one HTML page, and files with a content hash in their names. */
import { fileURLToPath } from "node:url";
import { build } from "vite";

const here = fileURLToPath(new URL(".", import.meta.url));

export async function buildDashboard() {
  await build({
    root: here,
    configFile: false,
    logLevel: "warn",
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
    build: {
      outDir: fileURLToPath(new URL("../dist/dashboard", import.meta.url)),
      emptyOutDir: true,
      target: ["chrome123", "firefox128", "safari17.5"],
      modulePreload: { polyfill: false },
      // The Content-Security-Policy allows no inline files.
      assetsInlineLimit: 0,
      // The licences of the bundled packages.
      license: { fileName: "licences.md" },
    },
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildDashboard();
