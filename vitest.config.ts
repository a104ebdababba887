/** Tests import the TypeScript source; those that need the build or the tarball say so where they do. */
import { defineConfig } from "vitest/config";

/** They run against real servers, which are started once for all of them. */
const STORES = [
  "packages/nevertwice/test/stores/**/*.test.ts",
  "packages/nevertwice/test/brokers/**/*.test.ts",
  "packages/nevertwice/test/services/**/*.test.ts",
];

/** They load the real servers as much as they can, so nothing else runs beside them. */
const SCALE = "packages/nevertwice/test/scale/**/*.test.ts";
const SCALE_TIMEOUT_MS = process.env.NEVERTWICE_SCALE === "full" ? 3_600_000 : 120_000;

/** It takes every core for itself, so nothing else runs beside it. */
const SIMULATION = "packages/nevertwice/test/testing/simulation.test.ts";

export default defineConfig({
  test: {
    maxWorkers: 2,
    testTimeout: 10_000,
    hookTimeout: 60_000,
    restoreMocks: true,
    unstubEnvs: true,
    projects: [
      {
        extends: true,
        test: {
          name: "tests",
          include: ["packages/nevertwice/test/**/*.test.ts", "scripts/test/**/*.test.js"],
          exclude: ["**/node_modules/**", ...STORES, SCALE, SIMULATION],
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
          // The cases of a store wait for its clock most of the time.
          maxConcurrency: 50,
          testTimeout: 20_000,
          hookTimeout: 120_000,
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
          testTimeout: 30_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: {
          name: "scale",
          include: [SCALE],
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
        test: { name: "simulation", include: [SIMULATION], sequence: { groupOrder: 4 } },
      },
    ],
  },
});
