/**
 * Tests the gateway in front of node:http and of nginx at full size: a hundred thousand generated requests and as many
 * generated answers on each, and two thousand connections that stall in each of nine ways.
 */
import { campaignOfTrials } from "./trials.js";

/** @returns {Promise<boolean>} whether every check passed */
export function campaignOfGateway() {
  return campaignOfTrials({
    project: "server",
    tests: ["gateway-fuzz.test.ts", "gateway-stalls.test.ts"].map((file) => `packages/server/test/${file}`),
    page: "bench/results/gateway-at-scale.md",
    head: { title: "The gateway at scale", campaign: "gateway" },
  });
}
