/** Tests import the TypeScript source; those that need the build or the tarball say so where they do. */
import { defineConfig } from "vitest/config";

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
          include: ["packages/*/test/**/*.test.ts", "scripts/test/**/*.test.js"],
          exclude: ["**/node_modules/**", SIMULATION],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: "simulation", include: [SIMULATION], sequence: { groupOrder: 1 } },
      },
    ],
  },
});
