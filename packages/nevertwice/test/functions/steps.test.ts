/** Tests steps through every door that calls the work: claims, policies, consumers, HTTP handlers, and a guard that is off. */
import { expect, test } from "vitest";
import type { Attempt } from "../../src/core/attempt.ts";
import { offStore } from "../../src/env/off-store.ts";
import { consumer } from "../../src/events/index.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { protect } from "../../src/functions/protect.ts";
import { attemptOf, withIdempotency } from "../../src/http/fetch.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const REQUEST = { operation: "order", key: "order-1" };

const guarded = (store = memoryStore()) => createGuard({ store, purgeEveryMs: 0 });

/** Two steps; the work throws between them for the first `failures` times. */
function createWork(failures: number) {
  const ran: string[] = [];
  let calls = 0;
  const work = async (attempt: Pick<Attempt, "step">) => {
    const charged = await attempt.step("charge", () => {
      ran.push("charge");
      return `charge ${ran.length}`;
    });
    if (calls++ < failures) throw new Error("failed");
    await attempt.step("ship", () => void ran.push("ship"));
    return charged;
  };
  return { ran, work };
}

test("a policy that retries the work under one claim does not repeat its finished steps", async () => {
  const { ran, work } = createWork(2);
  const policy = {
    async execute<T>(call: () => PromiseLike<T> | T): Promise<T> {
      for (let tries = 0; ; tries++) {
        try {
          return await call();
        } catch (error) {
          if (tries === 2) throw error;
        }
      }
    },
  };
  const options = { operation: "order", key: () => "order-1", policy };
  expect(await protect(guarded(), options, work)).toBe("charge 1");
  expect(ran).toEqual(["charge", "ship"]);
});

test("a consumer that retries a message under one claim does not repeat its finished steps", async () => {
  const { ran, work } = createWork(2);
  const { handle } = consumer(guarded(), {
    name: "orders",
    key: (message: { readonly id: string }) => message.id,
    work: (_, attempt) => work(attempt),
    retry: { max: 2, baseMs: 1 },
  });
  expect(await handle({ id: "1" })).toMatchObject({ status: "done", value: "charge 1" });
  expect(ran).toEqual(["charge", "ship"]);
});

test("the holder of a claim takes steps, and the next holder skips them", async () => {
  const guard = guarded();
  const { ran, work } = createWork(1);
  const first = await guard.claim(REQUEST);
  if (first.status !== "claimed") throw new Error(first.status);
  await expect(work(first)).rejects.toThrow("failed");
  await first.release();
  const second = await guard.claim(REQUEST);
  if (second.status !== "claimed") throw new Error(second.status);
  expect(await second.complete(await work(second))).toMatchObject({ status: "ran", value: "charge 1" });
  expect(ran).toEqual(["charge", "ship"]);
});

test("a handler that failed after a step skips it when the client tries again", async () => {
  const { ran, work } = createWork(1);
  const handler = withIdempotency(guarded(), { scope: "anyone" }, async (request) =>
    Response.json(await work(attemptOf(request) as Attempt)),
  );
  const send = () =>
    handler(new Request("https://shop.example/", { method: "POST", headers: { "idempotency-key": '"k"' } }));
  await expect(Promise.resolve(send())).rejects.toThrow("failed");
  expect(await (await send()).json()).toBe("charge 1");
  expect(ran).toEqual(["charge", "ship"]);
});

test("a guard that is switched off runs every step", async () => {
  const { ran, work } = createWork(1);
  const guard = guarded(offStore());
  await expect(guard.run(REQUEST, work)).rejects.toThrow("failed");
  expect(await guard.run(REQUEST, work)).toBe("charge 2");
  expect(ran).toEqual(["charge", "charge", "ship"]);
});
