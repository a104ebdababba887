/**
 * Tests that a record stays readable after an attempt ended twice: it gave up as unknown, completed after that, and an operator
 * reopened its key. Needs the build.
 */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { EVERY_SUBJECT, openSubject } from "../scale/subjects.ts";

const PARTS = { namespace: "reopened", scope: "", operation: "work", key: "key" };
const RETENTION_MS = 60_000;

for (const { name, create } of EVERY_SUBJECT)
  test(`on ${name}, the history tells how the attempt ended last`, async (context) => {
    const store = await openSubject(context, await create(context));
    const id = randomBytes(32).toString("hex");
    const claim = (token: string) =>
      store.claim({ id, parts: PARTS, token, leaseMs: 30_000, retentionMs: RETENTION_MS, hold: false });
    const first = await claim("first");
    const fence = first.status === "new" ? first.fence : 0;
    await store.renew({ id, token: "first", leaseMs: 30_000 });
    expect(await store.abandon({ id, token: "first", as: "unknown" })).toBe(true);
    expect(await store.complete({ id, token: "first", outcome: "done", retentionMs: RETENTION_MS })).toBe(
      true,
    );
    expect(await store.forget?.({ id, fence, reopen: true })).toBe(true);
    expect(await claim("second")).toMatchObject({ status: "new", number: 2 });
    const record = await store.read(id);
    expect(record).toMatchObject({ state: "pending", token: "second" });
    expect(record?.history?.attempts).toMatchObject([
      { number: 1, renewals: 1, ended: "completed" },
      { number: 2, renewals: 0, ended: undefined },
    ]);
  });
