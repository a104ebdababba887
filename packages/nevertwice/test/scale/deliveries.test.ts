/** Tests deliveries with duplicates and killed consumers: each message has one effect, and none is lost. Needs the build. */
import { describe, expect, test } from "vitest";
import { type Ended, sendings, storm } from "./deliveries.ts";
import { BROKERS, type Broker, NATS, RABBITMQ } from "./deliveries-brokers.ts";
import { judgeDeliveries } from "./deliveries-referee.ts";
import { count, report, tellCounts } from "./figures.ts";
import { sizeOf } from "./sizes.ts";

function figuresOf(ended: Ended, secondTries: number): string {
  const { deliveries, messages, kills, takeovers, seconds } = ended;
  const total = Object.values(deliveries).reduce((sum, times) => sum + times, 0);
  return `${count(total)} deliveries of ${count(messages.length)} messages in ${seconds.toFixed(1)} s (${tellCounts(deliveries)}), ${kills.length} consumers killed: each message has one effect, ${count(takeovers.length)} claims taken over, ${count(secondTries)} second tries`;
}

describe("messages that are sent again, to consumers that are killed every second", () => {
  describe.for(BROKERS)("on $name", (broker: Broker) => {
    test("have one effect each, and a second try only after a kill and a takeover", async (context) => {
      const size = sizeOf("deliveries");
      const ended = await storm(context, broker, size, { onLapsed: "takeover" });
      const { problems, effects, secondTries } = judgeDeliveries(ended);
      await report(ended.store, {
        trial: `${broker.name}: deliveries to consumers that are killed`,
        figures: `${figuresOf(ended, secondTries)}, each explained by a kill and a \`taken-over\` event`,
      });
      expect(problems.slice(0, 5)).toEqual([]);
      expect(effects).toBe(ended.messages.length);
      expect(ended).toMatchObject({ left: 0, rejected: 0 });
      // The test had faults to deal with: processes were killed while they worked, and there were redeliveries of every sort.
      const { deliveries, kills, takeovers } = ended;
      expect(kills.length).toBeGreaterThan(0);
      expect(takeovers.length).toBeGreaterThan(0);
      expect(Object.values(deliveries).reduce((sum, times) => sum + times, 0)).toBeGreaterThan(
        size.deliveries * 0.99,
      );
      expect(deliveries.failed).toBeGreaterThan(size.deliveries / 20);
      expect(deliveries["done-before"]).toBeGreaterThan(size.deliveries / 10);
    });

    test("have no second try while a lapsed claim is held, and complete once it is decided", async (context) => {
      const size = sizeOf("deliveries-held");
      const ended = await storm(context, broker, size, { onLapsed: "hold" });
      const { problems, effects, secondTries } = judgeDeliveries(ended);
      const { held, leftHeld, kills, deliveries } = ended;
      await report(ended.store, {
        trial: `${broker.name}: deliveries to consumers that are killed, where a lapsed claim is held`,
        figures: `${figuresOf(ended, secondTries)}; ${count(held.length)} messages were unknown and ${count(leftHeld)} deliveries of them stayed in the queue until an operator decided them; then the queue was empty`,
      });
      expect(problems.slice(0, 5)).toEqual([]);
      expect(effects).toBe(ended.messages.length);
      expect(secondTries).toBe(0);
      expect(ended.takeovers).toEqual([]);
      expect(held.length).toBeGreaterThan(0);
      expect(held.length).toBeLessThanOrEqual(kills.length * size.lanes);
      expect(leftHeld).toBeGreaterThanOrEqual(held.length);
      expect(deliveries.unknown).toBeGreaterThan(0);
      expect(ended).toMatchObject({ left: 0, rejected: 0 });
    });
  });
});

describe("the referee of the deliveries", () => {
  const SMALL = { deliveries: 1_000, processes: 2, prefetch: 100, lanes: 8, workMs: 20, killEveryMs: 250 };

  test("reports lost messages if they are acknowledged before their work", async (context) => {
    const ended = await storm(context, RABBITMQ, SMALL, {
      onLapsed: "takeover",
      fault: "acknowledges-first",
    });
    expect(judgeDeliveries(ended).problems).toContainEqual(expect.stringMatching(/^\d+ is lost$/));
  });

  test("reports messages that are done twice if there is no guard", async (context) => {
    const ended = await storm(context, NATS, SMALL, { onLapsed: "takeover", fault: "has-no-guard" });
    const { problems } = judgeDeliveries(ended);
    expect(problems).toContainEqual(expect.stringMatching(/^\d+ was done \d times$/));
    expect(problems).toContainEqual(expect.stringContaining("was alive"));
  });

  const tried = (pid: number, fence: number, at: number, more: object = {}) => ({
    ...{ key: "k", message: "m", pid, fence, number: fence, at, isNew: at === 1 },
    ...more,
  });
  const judged = (tries: readonly ReturnType<typeof tried>[], more: object = {}) =>
    judgeDeliveries({
      ...{ messages: ["m"], tries, onLapsed: "takeover" as const },
      ...{ kills: [{ pid: 1, at: 5 }], takeovers: [{ message: "m", fence: 2 }], ...more },
    }).problems;

  test("accepts a second try after a kill and a takeover", () => {
    expect(judged([tried(1, 1, 1), tried(2, 2, 9)])).toEqual([]);
  });

  test("reports each second try that no kill and takeover explain", () => {
    expect(judged([tried(1, 1, 1), tried(2, 2, 9)], { kills: [] })).toEqual([
      "m was tried again by 2, although 1, which tried it before, was alive",
    ]);
    expect(judged([tried(1, 1, 1), tried(2, 2, 4)])).toEqual([
      "m was tried again by 2, although 1, which tried it before, was alive",
    ]);
    expect(judged([tried(1, 1, 1), tried(2, 3, 9)])).toEqual([
      "m was tried again by 2, and no process reported a takeover",
    ]);
    expect(judged([tried(1, 2, 1), tried(2, 2, 9)])).toEqual([
      "m was tried again by 2 under a claim that is not a later one",
    ]);
    expect(judged([tried(1, 1, 1), tried(2, 2, 9)], { onLapsed: "hold" })).toEqual([
      "m was tried again by 2, although it is held",
    ]);
  });

  test("reports messages that are lost, were never sent, or have two effects", () => {
    expect(judged([])).toEqual(["m is lost"]);
    expect(judged([tried(1, 1, 1), tried(1, 1, 1, { message: "x" })])).toEqual([
      "x was done, but was never sent",
    ]);
    expect(judged([tried(1, 1, 1), tried(2, 2, 9, { key: "other" })])).toEqual(["m was done 2 times"]);
  });

  test("gets ten deliveries for seven messages: two are sent again, one is given back", () => {
    const { messages, sent } = sendings(10_000);
    expect(messages).toHaveLength(7_000);
    expect(sent).toHaveLength(9_000);
    expect(new Set(sent).size).toBe(7_000);
    expect(messages.filter((id) => Number(id) % 7 === 0)).toHaveLength(1_000);
  });
});
