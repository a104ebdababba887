/** Builds the dashboard into the package: one page, and files that are named by their hash. */
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
      // A file in the page itself would need a policy that allows such.
      assetsInlineLimit: 0,
      // What is bundled keeps its licence beside it.
      license: { fileName: "licences.md" },
    },
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildDashboard();
