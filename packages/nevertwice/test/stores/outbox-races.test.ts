/**
 * Tests the races of the outbox on real servers: producers that commit in another order than they wrote, relays side by side
 * on busy keys, and statements that meet each other's locks. A message that is forgotten makes these tests time out.
 */
import { describe, expect, test } from "vitest";
import type { OutboxMessage } from "../../src/outbox/index.ts";
import { createScene, type DatabaseName, numbered, startRelay } from "./outbox/scene.ts";

const DATABASES: readonly DatabaseName[] = ["postgres", "mysql"];
const KEYS = ["a", "b", "c"];

for (const database of DATABASES) {
  describe(database, () => {
    test("forgets no message and keeps the order of each producer while relays and producers race", async (context) => {
      const { outbox, another, begin } = await createScene(database, context);
      const order: OutboxMessage[] = [];
      const note = (message: OutboxMessage) => void order.push(message);
      const options = { concurrency: 4, batch: 7, retry: { baseMs: 1, capMs: 5 } };
      for (const each of [outbox, another(), another()]) startRelay(each, note, options);
      const perProducer = 60;
      const produce = async (producer: number) => {
        for (let number = 0; number < perProducer; number += 2) {
          const tx = await begin();
          for (const next of [number, number + 1])
            await tx.send({
              ...numbered(KEYS[(producer + number) % KEYS.length], next),
              topic: `p${producer}`,
            });
          if (number % 6 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
          await tx.commit();
        }
      };
      await Promise.all([0, 1, 2, 3].map(produce));
      await expect.poll(() => new Set(order.map(({ id }) => id)).size).toBe(4 * perProducer);
      // A producer begins a transaction after the last one has committed, so its messages of a key are in order.
      for (const key of KEYS)
        for (const topic of ["p0", "p1", "p2", "p3"]) {
          const numbers = order.filter((message) => message.key === key && message.topic === topic);
          const bodies = numbers.map(({ body }) => body as number);
          expect(bodies).toEqual([...bodies].sort((x, y) => x - y));
        }
    });

    test("delivers a message whose transaction commits long after later ones", async (context) => {
      const { outbox, begin, send } = await createScene(database, context);
      const { delivered } = startRelay(outbox);
      const slow = await begin();
      await slow.send(numbered("k", 1));
      await send(numbered("k", 2));
      await expect.poll(() => delivered.map(({ body }) => body)).toEqual([2]);
      await slow.commit();
      await expect.poll(() => delivered.map(({ body }) => body)).toEqual([2, 1]);
    });

    test("does not put a message behind one that is being deleted", async (context) => {
      const { outbox, begin, lockAndDelete } = await createScene(database, context);
      const tx = await begin();
      await tx.send(numbered("k", 1));
      await tx.send(numbered("k", 2));
      await tx.commit();
      const deletion = await lockAndDelete("k");
      const { delivered } = startRelay(outbox);
      await expect
        .poll(async () => (await outbox.list({ key: "k" })).messages.map(({ state }) => state))
        .toEqual(["waiting", "waiting"]);
      expect(delivered).toEqual([]);
      await deletion.commit();
      await expect.poll(() => delivered.map(({ body }) => body)).toEqual([2]);
    });
  });
}
