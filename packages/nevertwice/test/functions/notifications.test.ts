/** Tests what observers receive about checks, and about dead letters that no sink accepted. */
import { describe, expect, test } from "vitest";
import { protect, tryProtect } from "../../src/functions/protect.ts";
import { createGuard, type GuardEvent } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const SUBJECT = { operation: "import", scope: "alice", key: "row-1" };

function watched() {
  const events: GuardEvent[] = [];
  const guard = createGuard({
    store: memoryStore(),
    purgeEveryMs: 0,
    observer: (event) => void events.push(event),
  });
  const about = guard.about(SUBJECT);
  return { guard, events, about, of: (kind: string) => events.filter((event) => event.kind === kind) };
}

describe("seen", () => {
  test("reports what the store knew, and what lookup returned", async () => {
    const { guard, about, of } = watched();
    expect(await guard.seen(SUBJECT)).toBe(false);
    expect(await guard.seen({ ...SUBJECT, lookup: () => undefined })).toBe(false);
    expect(await guard.seen({ ...SUBJECT, lookup: () => "a row" })).toBe(true);
    expect(await guard.seen({ ...SUBJECT, lookup: () => "a row" })).toBe(true);
    const checked = (by: string, isSeen: boolean) => ({ ...about, kind: "checked", by, isSeen });
    expect(of("checked")).toEqual([
      checked("store", false),
      checked("store", false),
      checked("lookup", false),
      checked("store", false),
      checked("lookup", true),
      checked("store", true),
    ]);
  });

  test("reports to the same observers on a guard made by with", async () => {
    const { guard, of } = watched();
    await guard.with({ leaseMs: 1_000 }).seen(SUBJECT);
    expect(of("checked")).toHaveLength(1);
  });
});

describe("a dead letter that its sink does not accept", () => {
  const down = () => Promise.reject(new Error("down"));
  const options = { operation: "import", scope: "alice", key: () => "row-1" };

  test("is reported to the observers with the cause, and the caller gets the entry", async () => {
    const { guard, about, of } = watched();
    const cause = new Error("the disk is full");
    const sink = () => Promise.reject(cause);
    const answer = await tryProtect(guard, { ...options, deadLetters: sink }, down);
    expect(answer).toMatchObject({ outcome: "failed", isEntryKept: false });
    const id = (answer as { readonly entry?: { readonly id: string } }).entry?.id;
    expect(of("dead-letter-lost")).toEqual([{ ...about, kind: "dead-letter-lost", id, cause }]);
  });

  test("is also reported if the sink throws at once; an accepted one is not", async () => {
    const { guard, of } = watched();
    const sink = () => {
      throw new Error("not now");
    };
    await expect(protect(guard, { ...options, deadLetters: sink }, down)).rejects.toThrow("down");
    expect(of("dead-letter-lost")).toHaveLength(1);
    await expect(protect(guard, { ...options, deadLetters: () => {} }, down)).rejects.toThrow("down");
    expect(of("dead-letter-lost")).toHaveLength(1);
  });
});
