/**
 * Tests the outbox on each database: what commits is delivered at least once with the same id, in order per key, and what is
 * rolled back is never delivered.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { permanent, retryAfter } from "../../src/outbox/index.ts";
import { gate } from "../deferred.ts";
import { createScene, type DatabaseName, numbered, startRelay } from "./outbox/scene.ts";

const DATABASES: readonly DatabaseName[] = ["postgres", "mysql", "sqlite"];

for (const database of DATABASES) {
  describe(database, () => {
    test("delivers what was committed, and nothing that was rolled back", async (context) => {
      const { outbox, begin, send, rows } = await createScene(database, context);
      const { delivered } = startRelay(outbox);
      const tx = await begin();
      await tx.send({ topic: "never", body: 1 });
      await tx.rollBack();
      const id = await send({
        topic: "order.paid",
        key: "order-1",
        body: { amount: 5, note: "é\u0000\"'" },
        headers: { trace: "abc" },
      });
      await expect.poll(() => delivered.length).toBe(1);
      expect(delivered[0]).toEqual({
        id,
        topic: "order.paid",
        key: "order-1",
        body: { amount: 5, note: "é\u0000\"'" },
        headers: { trace: "abc" },
        createdAt: expect.any(Number),
      });
      expect(Math.abs(Date.now() - (delivered[0]?.createdAt ?? 0))).toBeLessThan(60_000);
      await expect.poll(rows).toEqual([]);
    });

    test("keeps text and bytes as they are", async (context) => {
      const { outbox, send } = await createScene(database, context);
      const { delivered } = startRelay(outbox);
      const bytes = new Uint8Array(randomBytes(1_000));
      const text = `${"x".repeat(500)}\n'"\\ 😀`;
      for (const body of [bytes, text, "", null, 0, [], ["a", "b"]])
        await send({ topic: "t", key: "k", body });
      await expect.poll(() => delivered.length).toBe(7);
      expect(delivered.map(({ body }) => body)).toEqual([bytes, text, "", null, 0, [], ["a", "b"]]);
    });

    test("refuses a message that it could not deliver as it is", async (context) => {
      const { outbox, begin } = await createScene(database, context, { maxMessageBytes: 1_000 });
      const { relay } = startRelay(outbox);
      await relay.stop();
      const tx = await begin();
      const refusals = [
        [{ topic: "t", body: "x".repeat(1_000) }, "body-too-large"],
        [{ topic: "t", body: new Date() }, "options-invalid"],
        [{ topic: "t", body: undefined }, "options-invalid"],
        [{ topic: "t", body: "\ud800" }, "options-invalid"],
        [{ topic: "", body: 1 }, "options-invalid"],
        [{ topic: "t\0", body: 1 }, "options-invalid"],
        [{ topic: "t", key: "", body: 1 }, "key-invalid"],
        [{ topic: "t", body: 1, headers: { "A b": "c" } }, "options-invalid"],
        [{ topic: "t", body: 1, headers: { a: "c\r\nd: e" } }, "options-invalid"],
        [{ topic: "t", body: 1, other: 1 }, "options-invalid"],
      ] as const;
      for (const [message, code] of refusals)
        await expect(async () => tx.send(message as never)).rejects.toMatchObject({ code });
      await tx.rollBack();
    });

    test("delivers the messages of a key one after another, in the order of their transactions", async (context) => {
      const { outbox, begin } = await createScene(database, context);
      const keys = ["a", "b", "c"];
      for (let number = 0; number < 20; number += 2) {
        const tx = await begin();
        for (const key of keys) {
          await tx.send(numbered(key, number));
          await tx.send(numbered(key, number + 1));
        }
        await tx.commit();
      }
      const running = new Set<string>();
      const deliver = async ({ key = "" }) => {
        expect(running.has(key)).toBe(false);
        running.add(key);
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
        running.delete(key);
      };
      const relays = [startRelay(outbox, deliver), startRelay(outbox, deliver)];
      const all = () => relays.flatMap(({ delivered }) => delivered);
      await expect.poll(() => all().length).toBe(60);
      expect(new Set(all().map(({ id }) => id)).size).toBe(60);
      // Each relay delivered its share of a key in order.
      for (const { delivered } of relays)
        for (const key of keys) {
          const bodies = delivered.filter((each) => each.key === key).map(({ body }) => body as number);
          expect(bodies).toEqual([...bodies].sort((x, y) => x - y));
        }
    });

    test("holds a key back while its oldest message waits for its next attempt, and no other key", async (context) => {
      const { outbox, send } = await createScene(database, context);
      await send(numbered("slow", 1));
      await send(numbered("slow", 2));
      await send(numbered("fast", 3));
      await send(numbered(undefined, 4));
      const isOpen = gate();
      let isReady = false;
      void isOpen.opened.then(() => {
        isReady = true;
      });
      const attempts: number[] = [];
      const { delivered, events } = startRelay(
        outbox,
        ({ body }, { attempt }) => {
          if (body !== 1) return;
          attempts.push(attempt);
          if (!isReady) throw new Error("not yet");
        },
        { retry: { baseMs: 20, capMs: 50 } },
      );
      await expect.poll(() => attempts.length).toBeGreaterThan(2);
      expect(delivered.map(({ body }) => body).sort()).toEqual([3, 4]);
      isOpen.open();
      await expect.poll(() => delivered.length).toBe(4);
      expect(delivered.map(({ body }) => body).slice(2)).toEqual([1, 2]);
      expect(attempts).toEqual(attempts.map((_, index) => index + 1));
      expect(events).toContainEqual(
        expect.objectContaining({ kind: "failed", error: "Error: not yet", attempt: 1 }),
      );
    });

    test("parks a message that cannot be delivered, with its key, until an operator decides", async (context) => {
      const { outbox, send } = await createScene(database, context);
      const bad = await send(numbered("k", 1));
      await send(numbered("k", 2));
      const tired = await send(numbered("other", 3));
      let isMended = false;
      const { delivered, events } = startRelay(
        outbox,
        ({ body }) => {
          if (body === 1 && !isMended) throw permanent(new Error("gone"));
          if (body === 3) throw new Error("never");
        },
        { maxAttempts: 2, retry: { baseMs: 1 } },
      );
      await expect.poll(() => events.filter(({ kind }) => kind === "parked").length).toBe(2);
      await expect.poll(async () => (await outbox.list({ state: "parked" })).messages.length).toBe(2);
      const { messages } = await outbox.list({ key: "k" });
      expect(
        messages.map(({ id, state, attempts, lastError }) => ({ id, state, attempts, lastError })),
      ).toEqual([
        { id: bad, state: "parked", attempts: 1, lastError: "Error: gone" },
        { id: expect.any(String), state: "behind", attempts: 0, lastError: undefined },
      ]);
      expect(await outbox.figures()).toMatchObject({
        undelivered: 3,
        waiting: 0,
        parked: 2,
        behind: 1,
        due: 0,
      });
      isMended = true;
      expect(await outbox.retry(bad)).toBe(true);
      expect(await outbox.discard(tired)).toBe(true);
      expect(await outbox.discard(tired)).toBe(false);
      await expect.poll(() => delivered.map(({ body }) => body)).toEqual([1, 2]);
      await expect.poll(async () => (await outbox.list()).messages).toEqual([]);
    });

    test("goes on with the next message of a key when the parked one is discarded", async (context) => {
      const { outbox, send } = await createScene(database, context);
      const first = await send(numbered("k", 1));
      const second = await send(numbered("k", 2));
      expect(await outbox.park(first)).toBe(true);
      expect(await outbox.park(first)).toBe(false);
      await send(numbered("k", 3));
      const { delivered } = startRelay(outbox);
      await expect
        .poll(async () => (await outbox.list({ key: "k" })).messages.map(({ state }) => state))
        .toEqual(["parked", "behind", "behind"]);
      // Parked while it is behind: it holds its key back when its turn comes.
      expect(await outbox.park(second)).toBe(true);
      expect(await outbox.discard(first)).toBe(true);
      expect(delivered).toEqual([]);
      expect(await outbox.retry(second)).toBe(true);
      await expect.poll(() => delivered.map(({ body }) => body)).toEqual([2, 3]);
    });

    test("waits as long as the receiver says", async (context) => {
      const { outbox, send } = await createScene(database, context);
      await send(numbered("k", 1));
      const { events } = startRelay(
        outbox,
        () => {
          throw retryAfter(40_000, new Error("busy"));
        },
        { retry: { baseMs: 1, capMs: 60_000 } },
      );
      await expect.poll(() => events.length).toBe(1);
      expect(events[0]).toMatchObject({ kind: "failed", retryInMs: 40_000 });
    });

    test("delivers again, with the same id, what a relay had when it was killed, and ignores its late answer", async (context) => {
      const { outbox, send, change } = await createScene(database, context);
      const id = await send(numbered("k", 1));
      await send(numbered("k", 2));
      await send({ topic: "queued", body: 3 });
      const late = gate();
      // It delivers one message and has a second one in its queue, so it does not look again, like a process that hangs. Its
      // renewal comes after 10 seconds, so the test ends the lease by hand.
      const full = { pollMs: 60_000, concurrency: 1, batch: 1 };
      const first = startRelay(outbox, () => late.opened, full);
      await expect.poll(async () => (await outbox.list({ state: "delivering" })).messages.length).toBe(2);
      await change("due_at = CASE WHEN token IS NULL OR topic = 'queued' THEN due_at ELSE 1 END");
      const held = gate();
      const ids: string[] = [];
      const second = startRelay(outbox, (message) => {
        if (message.key === "k") ids.push(message.id);
        return held.opened;
      });
      await expect.poll(() => ids).toEqual([id]);
      late.open();
      await expect.poll(() => first.delivered[0]?.id).toBe(id);
      // The late answer of the first relay must not delete the message that the second one is delivering.
      await first.relay.stop();
      const { messages } = await outbox.list({ key: "k" });
      expect(messages.map(({ state, attempts }) => `${state} ${attempts}`)).toEqual([
        "delivering 2",
        "behind 0",
      ]);
      held.open();
      const ordered = () => second.delivered.filter(({ key }) => key === "k").map(({ body }) => body);
      await expect.poll(ordered).toEqual([1, 2]);
    });

    test("erases the messages of a scope, and continues with the rest of their keys", async (context) => {
      const { outbox, send, rows } = await createScene(database, context);
      await send({ ...numbered("k", 1), scope: "customer-1" });
      await send({ ...numbered("k", 2), scope: "customer-2" });
      await outbox.park((await outbox.list()).messages[0]?.id ?? "");
      const { delivered } = startRelay(outbox);
      await expect.poll(async () => (await outbox.figures()).behind).toBe(1);
      expect(await outbox.forget({ scope: "customer-1" })).toBe(1);
      expect(await outbox.forget({ scope: "customer-1" })).toBe(0);
      await expect.poll(() => delivered.map(({ body }) => body)).toEqual([2]);
      await expect.poll(rows).toEqual([]);
    });

    test("stores nothing readable with sealing keys, and opens it for the deliverer", async (context) => {
      const sealing = { keys: { one: randomBytes(32) }, current: "one" };
      const { outbox, another, send, rows } = await createScene(database, context, { sealing });
      const secret = "4111-1111-1111-1111";
      await send({ topic: "t", key: "k", body: { card: secret }, headers: { note: secret } });
      const failing = startRelay(outbox, ({ body }) => {
        throw new Error(`cannot send ${JSON.stringify(body)}`);
      });
      await expect.poll(() => failing.events.length).toBe(1);
      await failing.relay.stop();
      const stored = (await rows()).flatMap((row) => Object.values(row)).map((value) => String(value));
      expect(stored.join()).toMatch(/sealed\.1\.one\./);
      expect(stored.join()).toMatch(/Error/);
      expect(stored.join()).not.toContain(secret);
      expect(JSON.stringify(failing.events)).not.toContain(secret);
      const [message] = (await outbox.list()).messages;
      await outbox.retry(message?.id ?? "");
      const blind = startRelay(another({ sealing: { keys: { two: randomBytes(32) }, current: "two" } }));
      await expect.poll(() => blind.events.map(({ kind }) => kind)).toContain("failed");
      await blind.relay.stop();
      await outbox.retry(message?.id ?? "");
      const { delivered } = startRelay(outbox);
      await expect.poll(() => delivered.length).toBe(1);
      expect(delivered[0]).toMatchObject({ body: { card: secret }, headers: { note: secret } });
    });

    test("keeps namespaces apart", async (context) => {
      const { another, outbox, send } = await createScene(database, context);
      const other = startRelay(another({ namespace: "other" }));
      await send(numbered("k", 1));
      const { delivered } = startRelay(outbox);
      await expect.poll(() => delivered.length).toBe(1);
      expect(other.delivered).toEqual([]);
    });

    test("shows the messages of another namespace without closing the client", async (context) => {
      const { another, outbox, send } = await createScene(database, context);
      const namespace = randomUUID();
      const [other, view] = [another({ namespace }), outbox.with({ namespace })];
      await send(numbered("k", 1));
      expect((await view.list()).messages).toEqual([]);
      expect(await view.discard((await outbox.list()).messages[0]?.id ?? "")).toBe(false);
      await view.close();
      expect([(await outbox.list()).messages.length, (await other.list()).messages.length]).toEqual([1, 0]);
      expect(() => outbox.with({ namespace: "" })).toThrow("options-invalid");
    });

    test("gives back what it has not tried when it stops, and waits for what it delivers", async (context) => {
      const { outbox, begin } = await createScene(database, context);
      const tx = await begin();
      for (let number = 0; number < 20; number++) await tx.send(numbered(undefined, number));
      await tx.commit();
      const open = gate();
      const { relay, delivered } = startRelay(outbox, () => open.opened, { concurrency: 3 });
      await expect.poll(async () => (await outbox.figures()).delivering).toBe(20);
      const stopped = relay.stop();
      await expect.poll(async () => (await outbox.figures()).due).toBe(17);
      open.open();
      await stopped;
      expect(delivered.length).toBe(3);
      const { messages } = await outbox.list();
      expect(messages.map(({ state, attempts }) => `${state} ${attempts}`)).toEqual(
        new Array(17).fill("waiting 0"),
      );
    });

    test("ends a delivery that takes too long, and tries again", async (context) => {
      const { outbox, send } = await createScene(database, context);
      await send(numbered("k", 1));
      const signals: AbortSignal[] = [];
      const { delivered, events } = startRelay(
        outbox,
        (_, { signal, attempt }) => {
          signals.push(signal);
          return attempt === 1 ? new Promise(() => {}) : undefined;
        },
        { deliverMs: 50, retry: { baseMs: 1 } },
      );
      await expect.poll(() => delivered.length).toBe(1);
      expect(signals[0]?.aborted).toBe(true);
      expect(events[0]).toMatchObject({ kind: "failed", attempt: 1 });
    });

    test("parks a message whose delivery ended the relay each time", async (context) => {
      const { outbox, send, change } = await createScene(database, context);
      await send(numbered("k", 1));
      await change("attempts = 3");
      const { delivered, events } = startRelay(outbox, undefined, { maxAttempts: 3 });
      await expect.poll(() => events.map(({ kind }) => kind)).toEqual(["parked"]);
      expect(delivered).toEqual([]);
    });

    test("delivers in time after the clock of the server went back", async (context) => {
      const { outbox, send, rows, change } = await createScene(database, context);
      await send(numbered("k", 1));
      const inTwoHours = (Date.now() + 7_200_000) * 1_000;
      await change(`due_at = ${inTwoHours}, token = 'lost'`);
      const { delivered } = startRelay(outbox);
      await expect
        .poll(async () => Number((await rows())[0]?.due_at))
        .toBeLessThan((Date.now() + 120_000) * 1_000);
      expect(delivered).toEqual([]);
    });

    test("lists page by page, by state, topic and key", async (context) => {
      const { outbox, begin } = await createScene(database, context);
      const tx = await begin();
      for (let number = 0; number < 10; number++)
        await tx.send({ topic: number % 2 === 0 ? "even" : "odd", key: `k${number % 3}`, body: number });
      await tx.commit();
      const first = await outbox.list({ limit: 4 });
      const second = await outbox.list({ limit: 4, after: first.next });
      const third = await outbox.list({ limit: 4, after: second.next });
      expect([first, second, third].map(({ messages }) => messages.length)).toEqual([4, 4, 2]);
      expect(third.next).toBeUndefined();
      expect((await outbox.list({ topic: "odd", limit: 3 })).messages.map(({ topic }) => topic)).toEqual(
        new Array(3).fill("odd"),
      );
      expect((await outbox.list({ key: "k0" })).messages.length).toBe(4);
      expect((await outbox.list({ state: "parked" })).messages).toEqual([]);
      await expect(outbox.list({ state: "sleeping" as never })).rejects.toMatchObject({
        code: "options-invalid",
      });
      const figures = await outbox.figures();
      expect(figures).toMatchObject({ undelivered: 10, waiting: 10, due: 10, delivering: 0 });
      expect(figures.topics).toEqual([
        { topic: "even", messages: 5 },
        { topic: "odd", messages: 5 },
      ]);
    });

    describe("attempt.enqueue", () => {
      test("writes in the transaction of the attempt, with ids that a repeated transaction repeats", async (context) => {
        const { guard: createGuardHere, handle, outbox } = await createScene(database, context);
        const guard = await createGuardHere();
        const ids: unknown[] = [];
        const run = () =>
          guard.transaction({ operation: "pay", scope: "customer", key: "order-1" }, handle, (_, attempt) => {
            const first = attempt.enqueue("paid", { amount: 5 }, { key: "order-1" });
            const second = attempt.enqueue("mailed", "hello", { key: "order-1", headers: { a: "b" } });
            ids.push(first, second);
            return 1;
          });
        await run();
        await run();
        const { delivered } = startRelay(outbox);
        await expect.poll(() => delivered.length).toBe(2);
        expect(delivered.map(({ id }) => id)).toEqual(await Promise.all(ids));
        expect(delivered.map(({ topic, body }) => [topic, body])).toEqual([
          ["paid", { amount: 5 }],
          ["mailed", "hello"],
        ]);
      });

      test("writes nothing when the work throws, and fails the transaction when a message cannot be written", async (context) => {
        const { guard: createGuardHere, handle, rows } = await createScene(database, context);
        const guard = await createGuardHere();
        const failing = guard.transaction({ operation: "pay", key: "1" }, handle, (_, attempt) => {
          void attempt.enqueue("paid", 1);
          throw new Error("no");
        });
        await expect(failing).rejects.toThrow("no");
        const unwritable = guard.transaction({ operation: "pay", key: "2" }, handle, (_, attempt) => {
          void attempt.enqueue("", 1);
          return 1;
        });
        await expect(unwritable).rejects.toMatchObject({ code: "options-invalid" });
        expect(await rows()).toEqual([]);
      });

      test("is refused outside of a transaction, after it, and without an outbox", async (context) => {
        const { guard: createGuardHere, handle } = await createScene(database, context);
        const guard = await createGuardHere();
        const refusal = expect.objectContaining({ code: "options-invalid" });
        await expect(
          guard.run({ operation: "o", key: "1" }, (attempt) => attempt.enqueue("t", 1)),
        ).rejects.toEqual(refusal);
        let late: (() => unknown) | undefined;
        await guard.transaction({ operation: "o", key: "2" }, handle, (_, attempt) => {
          late = () => attempt.enqueue("t", 1);
          return 1;
        });
        expect(late).toThrow(/outside of a transaction/);
        const without = await createGuardHere({ outbox: undefined });
        await expect(
          without.transaction(
            { operation: "o", key: "3" },
            handle,
            (_, attempt) => attempt.enqueue("t", 1) && 1,
          ),
        ).rejects.toThrow(/no outbox/);
      });
    });
  });
}
