/** Tests a pipeline whose processes are killed at every stage of a message: each node has one effect, and nothing is stuck. Needs the build. */
import { describe, expect, test } from "vitest";
import { judgeDeliveries } from "./deliveries-referee.ts";
import { count, report } from "./figures.ts";
import { killAtEveryStage, NODES, POINTS } from "./pipeline-stages.ts";
import { sizeOf } from "./sizes.ts";
import { REDIS, SQLITE } from "./subjects.ts";

describe.for([REDIS, SQLITE])("a network of five nodes on $name, killed at every stage", (subject) => {
  test("has one effect for each message and node, loses none, and leaves nothing stuck", async (context) => {
    const size = sizeOf("pipeline");
    const ended = await killAtEveryStage(context, subject, size);
    const { messages, kills, takeovers, told, seconds } = ended;
    const { problems, effects, secondTries } = judgeDeliveries(ended);
    const orders = messages.length / NODES.length;
    await report(ended.store, {
      trial: "A network of five nodes, killed at every stage",
      figures: `${count(orders)} messages and ${count(kills.length)} kills at ${POINTS.length} stages in ${seconds.toFixed(1)} s: ${count(effects)} effects, one for each message and node, ${count(secondTries)} second tries, each explained by a kill and a \`taken-over\` event, ${count(takeovers.length)} claims taken over, stored output sent on again ${count(told.recovered ?? 0)} times, ${count(told.duplicate ?? 0)} duplicates; no message is stuck`,
    });
    expect(problems.slice(0, 5)).toEqual([]);
    expect(effects).toBe(messages.length);
    expect(kills).toHaveLength(POINTS.length * size.rounds);
    expect(told).not.toHaveProperty("rejected");
    expect(ended).toMatchObject({ triesAfter: 0, open: [] });
    // The kills interrupted work: some messages were taken over, and some were dispatched again.
    expect(takeovers.length).toBeGreaterThan(0);
    expect(secondTries).toBeGreaterThan(0);
    expect(told.recovered).toBeGreaterThan(0);
    expect(told.failed).toBeGreaterThan(0);
  });
});

describe("the referee of the stages", () => {
  const SMALL = { rounds: 2, processes: 1, messages: 4 };

  test("reports lost messages if they are acknowledged before their dispatch", async (context) => {
    const ended = await killAtEveryStage(context, SQLITE, SMALL, {
      points: [{ node: "price", stage: "marked" }],
      fault: "acknowledges-before-dispatch",
    });
    expect(judgeDeliveries(ended).problems).toContainEqual(
      expect.stringMatching(/^order-\d+ charge is lost$/),
    );
  });

  test("reports messages that are done twice if nodes have no keys", async (context) => {
    const ended = await killAtEveryStage(context, SQLITE, SMALL, {
      points: [{ node: "charge", stage: "done" }],
      fault: "has-no-keys",
    });
    expect(judgeDeliveries(ended).problems).toContainEqual(
      expect.stringMatching(/^order-\d+ price was done \d+ times$/),
    );
  });
});
