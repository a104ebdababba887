/** Runs the trials of the real stores at full size. */
import { campaignOfTrials } from "./trials.js";

/** @returns {Promise<boolean>} whether every check passed */
export function campaignOfStores() {
  return campaignOfTrials({
    // Deliveries and pipelines have their own campaign and page.
    tests: ["--exclude", "**/deliveries.test.ts", "--exclude", "**/scale/pipeline.test.ts"],
    page: "bench/results/stores-at-scale.md",
    head: { title: "The stores at scale", campaign: "stores" },
  });
}
