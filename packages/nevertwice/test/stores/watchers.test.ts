/** The map of watchers that all stores share. */
import { expect, test } from "vitest";
import { createWatchers } from "../../src/stores/watchers.ts";

test("wakes the listeners of the given ids, and no others", () => {
  const watchers = createWatchers();
  const woken: string[] = [];
  watchers.watch("a", () => woken.push("a1"));
  watchers.watch("a", () => woken.push("a2"));
  watchers.watch("b", () => woken.push("b"));
  watchers.wake(["a", "unknown"]);
  expect(woken).toEqual(["a1", "a2"]);
  watchers.wakeAll();
  expect(woken).toEqual(["a1", "a2", "a1", "a2", "b"]);
});

test("reports the first and the last listener of an id, once each", () => {
  const reported: string[] = [];
  const watchers = createWatchers({
    onFirst: (id) => reported.push(`first ${id}`),
    onLast: (id) => reported.push(`last ${id}`),
  });
  const stopOne = watchers.watch("a", () => {});
  const stopTwo = watchers.watch("a", () => {});
  expect(watchers.ids()).toEqual(["a"]);
  stopOne();
  stopOne();
  expect(reported).toEqual(["first a"]);
  stopTwo();
  expect(reported).toEqual(["first a", "last a"]);
  expect(watchers.isEmpty()).toBe(true);
});

test("counts a function that is added twice as two listeners", () => {
  const watchers = createWatchers();
  let calls = 0;
  const wake = () => void calls++;
  const stop = watchers.watch("a", wake);
  watchers.watch("a", wake);
  stop();
  watchers.wake(["a"]);
  expect(calls).toBe(1);
});

test("calls every listener once when one of them removes itself and adds another", () => {
  const watchers = createWatchers();
  const woken: string[] = [];
  const stop = watchers.watch("a", () => {
    woken.push("first");
    stop();
    watchers.watch("a", () => woken.push("late"));
  });
  watchers.watch("a", () => woken.push("second"));
  watchers.wake(["a"]);
  expect(woken).toEqual(["first", "second"]);
});

test("a listener that is removed after clear does not touch the listeners that were added since", () => {
  const ended: string[] = [];
  const watchers = createWatchers({ onLast: (id) => ended.push(id) });
  const stop = watchers.watch("a", () => {});
  watchers.clear();
  watchers.watch("a", () => {});
  stop();
  expect(watchers.ids()).toEqual(["a"]);
  expect(ended).toEqual([]);
});
