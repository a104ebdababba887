/** Tests import the TypeScript source; those that need the build or the tarball say so where they do. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["packages/*/test/**/*.test.ts", "scripts/test/**/*.test.js", "examples/**/*.test.{js,ts}"],
    maxWorkers: 2,
    testTimeout: 10_000,
    hookTimeout: 60_000,
    restoreMocks: true,
    unstubEnvs: true,
  },
});
