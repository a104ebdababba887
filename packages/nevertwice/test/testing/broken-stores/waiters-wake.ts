/** Stores that leave waiters asleep, or wake who should sleep. */
import { RULES, type Rules } from "../rule-store.ts";
import { type Fault, soon } from "../wrong-rules.ts";

const silentOn = (silent: Parameters<Rules["wake"]>[1]) => (): Partial<Rules> => ({
  wake: (wakers, step) => {
    if (step !== silent) RULES.wake(wakers, step);
  },
});

export const waitersWake: readonly Fault[] = [
  {
    fault: "wakes nobody on complete",
    rules: silentOn("complete"),
    caught: [
      "a waiter is woken by complete",
      "every waiter of a key is woken",
      "a key may be watched before anybody claims it",
      "a woken waiter finds what it was woken for",
      "a waiter that stopped is not woken, and the others still are",
    ],
  },
  {
    fault: "wakes nobody on abandon as released",
    rules: silentOn("released"),
    caught: ["a waiter is woken by abandon as released"],
  },
  {
    fault: "wakes nobody on abandon as unknown",
    rules: silentOn("unknown"),
    caught: ["a waiter is woken by abandon as unknown"],
  },
  {
    fault: "wakes nobody on abandon as unrun",
    rules: silentOn("unrun"),
    caught: ["a waiter is woken by abandon as unrun"],
  },
  { fault: "wakes nobody on forget", rules: silentOn("forget"), caught: ["a waiter is woken by forget"] },
  { fault: "wakes nobody on reopen", rules: silentOn("reopen"), caught: ["a waiter is woken by reopen"] },
  {
    fault: "wakes one waiter of many",
    rules: () => ({
      wake: ([first]) => first?.(),
    }),
    caught: ["every waiter of a key is woken"],
  },
  {
    fault: "watches only what is there",
    wrap: (store) => ({
      ...store,
      async watch(request) {
        const record = await store.read(request.id);
        return (record && (await store.watch?.(request))) ?? (() => undefined);
      },
    }),
    caught: ["a key may be watched before anybody claims it"],
  },
  {
    fault: "wakes before it writes",
    rules: () => ({
      wake: () => undefined,
      beforeWrite: (wakers) => {
        if (wakers.size === 0) return undefined;
        for (const waker of wakers) waker();
        return soon();
      },
    }),
    caught: [
      "a waiter is woken by forget",
      "a waiter is woken by reopen",
      "a woken waiter finds what it was woken for",
    ],
  },
  {
    fault: "wakes who stopped watching",
    wrap: (store) => ({
      ...store,
      async watch(request) {
        await store.watch?.(request);
        return () => undefined;
      },
    }),
    caught: ["a waiter that stopped is not woken, and the others still are"],
  },
];
