/**
 * Tests the server at full size: kills servers every two seconds for a minute, sends a hundred thousand requests that are
 * generated from the API's own description, and builds and runs the image.
 */
import { campaignOfTrials } from "./trials.js";

/** @returns {Promise<boolean>} whether every check passed */
export function campaignOfServer() {
  return campaignOfTrials({
    project: "server",
    tests: ["chaos.test.ts", "fuzz.test.ts", "packaging.test.ts"].map(
      (file) => `packages/server/test/${file}`,
    ),
    page: "bench/results/server-at-scale.md",
    head: { title: "The server at scale", campaign: "server" },
  });
}
