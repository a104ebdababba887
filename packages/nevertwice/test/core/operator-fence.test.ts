/**
 * Tests that an operator can forget or reopen a record only with its current fence: a record that has changed since
 * is left unchanged.
 */
import { expect, test } from "vitest";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const subject = { operation: "charge", key: "order-1" };

async function completedTwice() {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  await guard.run(subject, () => "first");
  const seen = (await guard.read(subject))?.fence as number;
  await guard.reopen(subject);
  await guard.run(subject, () => "second");
  return { guard, seen, present: (await guard.read(subject))?.fence as number };
}

test("does not reopen a record with an earlier fence", async () => {
  const { guard, seen, present } = await completedTwice();
  expect(await guard.reopen({ ...subject, fence: seen })).toBe(false);
  expect(await guard.run(subject, () => "third")).toBe("second");
  expect(await guard.reopen({ ...subject, fence: present })).toBe(true);
  expect(await guard.run(subject, () => "third")).toBe("third");
});

test("does not forget a record with an earlier fence", async () => {
  const { guard, seen, present } = await completedTwice();
  expect(await guard.forget({ ...subject, fence: seen })).toBe(false);
  expect(await guard.run(subject, () => "third")).toBe("second");
  expect(await guard.forget({ ...subject, fence: present })).toBe(true);
  expect((await guard.tryRun(subject, () => "third")).status).toBe("not-kept");
});
