/**
 * Sends a hundred thousand deliveries on each broker to consumers that are killed every second, and kills pipelines at
 * every stage.
 */
import { campaignOfTrials } from "./trials.js";

/** @returns {Promise<boolean>} whether every check passed */
export function campaignOfEvents() {
  return campaignOfTrials({
    tests: ["deliveries.test.ts", "pipeline.test.ts"].map((file) => `packages/nevertwice/test/scale/${file}`),
    page: "bench/results/deliveries-at-scale.md",
    head: { title: "Deliveries at scale", campaign: "events" },
  });
}
