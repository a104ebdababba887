/** Configures Vitest. Tests import the TypeScript source; those that need the build or the tarball say so. */
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { keepTemporaryFoldersInMemory } from "./packages/nevertwice/test/services/temporary-folder.ts";

keepTemporaryFoldersInMemory();

/** They use real servers, which are started once for all of them. */
const STORES = [
  "packages/nevertwice/test/stores/**/*.test.ts",
  "packages/nevertwice/test/brokers/**/*.test.ts",
  "packages/nevertwice/test/services/**/*.test.ts",
];

/** They load the real servers as much as they can, so they run one at a time. */
const SCALE = "packages/nevertwice/test/scale/**/*.test.ts";
const isFull = process.env.NEVERTWICE_SCALE === "full";
const SCALE_TIMEOUT_MS = isFull ? 3_600_000 : 300_000;
/** They download packages, so only a campaign runs them. */
const DOWNLOADS = ["query-builders", "projects", "etcd-clients"].map(
  (name) => `packages/nevertwice/test/scale/${name}.test.ts`,
);

/** They use every core, so they run alone. */
const SIMULATIONS = ["simulation", "door-simulation"].map(
  (name) => `packages/nevertwice/test/testing/${name}.test.ts`,
);

/** They need no server, but a browser, the build, or many seconds: `npm run test:quick` leaves them out. */
const SLOW = [
  "packages/nevertwice/test/client/chromium.test.ts",
  "packages/nevertwice/test/cloudflare/**/*.test.ts",
  "packages/nevertwice/test/examples.test.ts",
  "packages/nevertwice/test/http/adapters*.test.ts",
  "packages/nevertwice/test/http/upload-memory.test.ts",
  "packages/nevertwice/test/loading.test.ts",
  "packages/nevertwice/test/models/**/*.test.ts",
  "packages/nevertwice/test/operator/**/*.test.ts",
  "packages/nevertwice/test/package.test.ts",
  "packages/nevertwice/test/pipeline/redeploy-fuzz.test.ts",
  "packages/nevertwice/test/platform/{doors,edge-bundles,edge-hosts,workerd}.test.ts",
  "packages/nevertwice/test/projects.test.ts",
  "packages/nevertwice/test/reservations/exhaustive.test.ts",
  "packages/nevertwice/test/reservations/properties.test.ts",
  "packages/nevertwice/test/testing/store-cases.test.ts",
  "scripts/test/bench-runs.test.js",
  "scripts/test/docs.test.js",
  "scripts/test/scoreboard.test.js",
];
const isQuick = process.env.QUICK_TESTS === "true";

/**
 * Tests of stores and of the server wait for clocks, disks and other processes most of the time, so more of them run at
 * once than there are cores.
 */
const WAITING_WORKERS = 4;

export default defineConfig({
  // The package's imports lead to the build.
  resolve: {
    alias: {
      "#platform": fileURLToPath(new URL("packages/nevertwice/src/platform/node.ts", import.meta.url)),
    },
  },
  test: {
    maxWorkers: 2,
    // Generous, since a busy machine takes many times as long. A test that hangs still fails.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
    setupFiles: "packages/nevertwice/test/services/patience.ts",
    restoreMocks: true,
    unstubEnvs: true,
    projects: [
      {
        extends: true,
        test: {
          name: "tests",
          include: ["packages/nevertwice/test/**/*.test.ts", "scripts/test/**/*.test.js"],
          exclude: ["**/node_modules/**", ...STORES, SCALE, ...SIMULATIONS, ...(isQuick ? SLOW : [])],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: "stores",
          include: STORES,
          globalSetup: "packages/nevertwice/test/services/setup.ts",
          env: { AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: "true" },
          maxWorkers: WAITING_WORKERS,
          // The cases of a store wait for its clock most of the time.
          maxConcurrency: 50,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "server",
          include: ["packages/server/test/**/*.test.ts"],
          // It uses the library as its users do: built.
          globalSetup: [
            "packages/nevertwice/test/scale/build.ts",
            "packages/nevertwice/test/services/setup.ts",
          ],
          maxWorkers: WAITING_WORKERS,
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: {
          name: "scale",
          include: [SCALE],
          exclude: ["**/node_modules/**", ...(isFull ? [] : DOWNLOADS)],
          globalSetup: [
            "packages/nevertwice/test/scale/build.ts",
            "packages/nevertwice/test/services/setup.ts",
          ],
          env: { AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: "true" },
          fileParallelism: false,
          maxConcurrency: 50,
          testTimeout: SCALE_TIMEOUT_MS,
          hookTimeout: SCALE_TIMEOUT_MS,
          sequence: { groupOrder: 3 },
        },
      },
      {
        extends: true,
        test: {
          name: "simulation",
          include: SIMULATIONS,
          fileParallelism: false,
          sequence: { groupOrder: 4 },
        },
      },
    ],
  },
});
