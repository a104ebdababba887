/** Puts the real stores to their trials at full size. */
import { campaignOfTrials } from "./trials.js";

/** @returns {Promise<boolean>} whether every promise was kept */
export function campaignOfStores() {
  return campaignOfTrials({
    // Deliveries and pipelines have a campaign, and a page, of their own.
    tests: ["--exclude", "**/deliveries.test.ts", "--exclude", "**/scale/pipeline.test.ts"],
    page: "bench/results/stores-at-scale.md",
    head: { title: "The stores at scale", campaign: "stores" },
  });
}
