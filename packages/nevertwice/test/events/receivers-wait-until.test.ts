/** Tests that webhooks and CloudEvents hand their calls to the platform's `waitUntil`, so that a sender that leaves ends nothing. Of receiver.ts. */
import { expect, test } from "vitest";
import { cloudEvents } from "../../src/events/cloudevents.ts";
import { consumer } from "../../src/events/index.ts";
import { github, webhook } from "../../src/events/webhook.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { gate } from "../deferred.ts";

/** What a platform hands to a handler besides the request. */
function context() {
  const works: Promise<unknown>[] = [];
  return {
    works,
    waitUntil(work: Promise<unknown>) {
      if (this.works !== works) throw new TypeError("Illegal invocation");
      works.push(work);
    },
  };
}

const guard = createGuard({ store: memoryStore() });
const work = () => "done";

test("a webhook hands over the call, and keeps the platform waiting until it has ended", async () => {
  const { opened, open } = gate();
  const hook = webhook(guard, { name: "hook", scheme: github, verify: () => true, work: () => opened });
  const ctx = context();
  const request = new Request("http://shop.example/hooks", {
    method: "POST",
    headers: { "x-github-delivery": "1" },
    body: "{}",
  });
  const answered = hook(request, {}, ctx);
  await expect.poll(() => ctx.works).toHaveLength(1);
  let isOver = false;
  void ctx.works[0]?.then(() => {
    isOver = true;
  });
  await new Promise(setImmediate);
  expect(isOver).toBe(false);
  open();
  expect((await answered).status).toBe(204);
  await expect.poll(() => isOver).toBe(true);
});

test("CloudEvents hand over the call of each event", async () => {
  const receive = cloudEvents(guard, { name: "events", work });
  const ctx = context();
  const event = (id: string) => ({ specversion: "1.0", type: "order", source: "/orders", id });
  const headers = { "content-type": "application/cloudevents-batch+json" };
  const body = JSON.stringify([event("1"), event("2")]);
  const request = new Request("http://shop.example/events", { method: "POST", headers, body });
  expect((await receive(request, ctx)).status).toBe(204);
  expect(ctx.works).toHaveLength(2);
});

test("a request of another framework brings its own", async () => {
  const hook = webhook(guard, { name: "other", scheme: github, verify: () => true, work });
  const ctx = context();
  const waitUntil = (work: Promise<unknown>) => ctx.waitUntil(work);
  await hook.handle({ headers: { "x-github-delivery": "2" }, body: "{}", waitUntil });
  expect(ctx.works).toHaveLength(1);
});

test("a consumer takes it with the message", async () => {
  const billing = consumer<string>(guard, { name: "billing", key: (message) => message, work });
  const ctx = context();
  const waitUntil = (work: Promise<unknown>) => ctx.waitUntil(work);
  await billing.handle("order-1", { waitUntil });
  await billing.handleBatch(["order-2", "order-3"], { waitUntil });
  expect(ctx.works).toHaveLength(3);
});
