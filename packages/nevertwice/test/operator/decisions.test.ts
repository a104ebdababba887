/** Tests what every surface answers after an operator decided about its record, or another surface wrote it. */
import { describe, expect, it } from "vitest";
import { memoryStore } from "../../src/stores/memory.ts";
import { claimsDoor, functionDoors } from "./function-doors.ts";
import { exchangeDoors, frameworkDoors } from "./http-doors.ts";
import { messageDoors } from "./message-doors.ts";
import { DECISIONS, decisionTrial, FRAMEWORK_DECISIONS, STATES } from "./trial.ts";

const COMBINATIONS = Object.keys(STATES).length * Object.keys(DECISIONS).length;

describe("after any decision of an operator at any state of the record", { timeout: 240_000 }, () => {
  const doors = { ...functionDoors, ...messageDoors, ...exchangeDoors };
  it.each(Object.entries(doors))(
    "%s answers what it defines, runs nothing twice, and has a way out",
    async (_, open) => {
      const { wrong, asked } = await decisionTrial(open);
      expect(wrong).toEqual([]);
      expect(asked).toBe(COMBINATIONS);
    },
  );

  it.each(Object.entries(frameworkDoors))("%s answers, and runs nothing twice", async (_, open) => {
    const { wrong } = await decisionTrial(open, { decisions: FRAMEWORK_DECISIONS });
    expect(wrong).toEqual([]);
  });

  it("the claims of a store answer what they define, run nothing twice, and have a way out", async () => {
    const store = memoryStore();
    expect((await decisionTrial(claimsDoor(store), { store })).wrong).toEqual([]);
  });
});
