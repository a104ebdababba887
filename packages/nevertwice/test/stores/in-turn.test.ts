/** Tests that the operator calls of all stores on one client take turns. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { createTurns, turnsFor, turnsOfCall } from "../../src/stores/in-turn.ts";
import { gate } from "../deferred.ts";

test("calls on one client run one after another, also after one that failed", async () => {
  const client = {};
  const first = gate();
  const ran: string[] = [];
  const failing = turnsFor(client)(async () => {
    await first.opened;
    throw new Error("the first one fails");
  });
  const second = turnsFor(client)(async () => void ran.push("second"));
  const elsewhere = turnsFor({})(async () => void ran.push("another client"));
  await elsewhere;
  expect(ran).toEqual(["another client"]);
  first.open();
  await expect(failing).rejects.toThrow("the first one fails");
  await second;
  expect(ran).toEqual(["another client", "second"]);
});

test("a call whose caller has cancelled while it waited is refused, and never sent", async () => {
  const client = {};
  const first = gate();
  let isCancelled = false;
  let isSent = false;
  const running = turnsFor(client)(() => first.opened);
  const waiting = turnsFor(client)(
    async () => {
      isSent = true;
    },
    () => isCancelled,
  );
  isCancelled = true;
  first.open();
  await running;
  await expect(waiting).rejects.toMatchObject({ code: "unavailable" });
  expect(isSent).toBe(false);
});

test("the time of a call is that of its own turns, however long it has waited for others", async () => {
  const turns = createTurns();
  const other = gate();
  const running = turns(() => other.opened);
  const call = turnsOfCall(turns, undefined);
  const step = call.run(() => sleep(20));
  await sleep(200);
  expect(call.spentMs()).toBe(0);
  other.open();
  await Promise.all([running, step]);
  expect(call.spentMs()).toBeGreaterThanOrEqual(15);
  await expect(call.run(() => Promise.reject(new Error("this step fails")))).rejects.toThrow("fails");
});

test("turns with several lanes run only as many calls at once", async () => {
  const turns = createTurns({ lanes: 2 });
  const first = gate();
  let running = 0;
  const calls = Array.from({ length: 6 }, () =>
    turns(async () => {
      running++;
      await first.opened;
    }),
  );
  await sleep(20);
  expect(running).toBe(2);
  first.open();
  await Promise.all(calls);
  expect(running).toBe(6);
});

test("the steps of calls that run at once alternate", async () => {
  const turns = createTurns();
  const ran: string[] = [];
  const steps = async (name: string) => {
    const call = turnsOfCall(turns, undefined);
    for (let step = 0; step < 3; step++) await call.run(async () => void ran.push(name));
  };
  await Promise.all([steps("a"), steps("b")]);
  expect(ran).toEqual(["a", "b", "a", "b", "a", "b"]);
});
