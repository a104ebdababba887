/** Tests random networks that are redeployed while messages are in them. */
import { describe, expect, it } from "vitest";
import { redeployTrial } from "./redeploy-trial.ts";

const TRIALS = 100;

describe("redeploys with renamed parts", () => {
  it("deliver or reject every message that was halfway, and repeat no work, whatever was renamed and killed", async () => {
    const wrong: string[] = [];
    for (let seed = 1; seed <= TRIALS; seed++) {
      for (const violation of await redeployTrial(seed)) wrong.push(`seed ${seed}: ${violation}`);
    }
    expect(wrong).toEqual([]);
  }, 120_000);
});
