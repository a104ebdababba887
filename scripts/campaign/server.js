/**
 * A minute of servers that are killed every two seconds, a hundred thousand requests made up from the API's own
 * description, and the image, built and run.
 */
import { campaignOfTrials } from "./trials.js";

/** @returns {Promise<boolean>} whether every promise was kept */
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
