/** Scenarios about durations, clocks that differ, and records that have expired. */
import { setTimeout as sleep } from "node:timers/promises";
import { restoreClock, shiftClock } from "../clock-shift.js";
import { check, describeAnswer, Failure, NotApplicable } from "../judgement.js";
import { usedHeap } from "../used-heap.js";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** The share of records that may be left. A heap also has what the runtime keeps for the next records. */
const MOST_RECORDS = 0.1;
const MOST_HEAP = 0.5;
const IN_FLIGHT = 256;
const SAMPLE = 20;
/** Purges leave the store to the calls, so a large backlog takes a while. */
const REMOVAL_MS = 180_000;
/** Without any progress for so long, nothing removes them. On Redis, nevertwice keeps a key for one to two minutes longer. */
const IDLE_MS = 135_000;
const OUTCOME = "x".repeat(100);

/** The retention is refused when it is given or at the first call; else a duplicate must get the outcome. */
async function problemWithRetention(t, retentionMs) {
  const effect = `retention-${retentionMs}`;
  const request = { key: effect };
  let subject;
  try {
    subject = await t.open({ retentionMs });
  } catch (error) {
    return { note: `${retentionMs} ms refused (${error.message.split("\n")[0].slice(0, 80)})` };
  }
  const first = await subject.call(request, t.work(effect));
  if (first.refusal !== undefined && t.effects(effect) === 0) return { note: `${retentionMs} ms refused` };
  await sleep(50);
  const second = await subject.call({ ...request, waitMs: 1_000 }, t.work(effect));
  if (t.effects(effect) === 1 && second.value === effect) return { note: `${retentionMs} ms kept` };
  return {
    problem: `a retention of ${retentionMs} ms was accepted, and a duplicate was ${describeAnswer(second)} after ${t.effects(effect)} runs (the first call was ${describeAnswer(first)})`,
  };
}

async function underOtherClocks(t) {
  const options = { leaseMs: t.leaseMs * 5 };
  const subject = await t.open(options);
  for (const [name, clockMs] of [
    ["ahead", 2 * HOUR_MS],
    ["behind", -2 * HOUR_MS],
  ]) {
    const key = `owner-here-${name}`;
    const { answer: owner } = await t.begin(subject, { key }, t.work(key, { ms: t.leaseMs * 2 }));
    const other = await t.child({
      clockMs,
      options,
      request: { key, waitMs: t.leaseMs * 5 },
      effect: key,
      workMs: 10,
    });
    const { answer } = await other.heard("answered");
    await owner;
    check(
      t.effects(key) === 1,
      `a process whose clock is two hours ${name} ran work that was running: ${t.effects(key)} runs`,
    );
    check(answer.value === key, `a process whose clock is two hours ${name} was ${describeAnswer(answer)}`);

    const away = `owner-there-${name}`;
    const running = await t.child({
      clockMs,
      options,
      request: { key: away },
      effect: away,
      workMs: t.leaseMs * 2,
    });
    await running.heard("began");
    const here = await subject.call({ key: away, waitMs: t.leaseMs * 5 }, t.work(away));
    check(
      t.effects(away) === 1,
      `the work of a process whose clock is two hours ${name} ran again while it was running: ${t.effects(away)} runs`,
    );
    check(
      here.value === away,
      `a caller of a key whose owner's clock is two hours ${name} was ${describeAnswer(here)}`,
    );
  }
  return "processes two hours ahead and behind: one run for each key, and every caller got its value";
}

async function underOneClock(t) {
  if (!t.library.hasLease) throw new NotApplicable("Its store has no other clock, and no lease.");
  const subject = await t.open({ leaseMs: t.leaseMs, maxRunMs: 500 });
  await t.begin(subject, { key: "k" }, () => new Promise(() => {}));
  shiftClock(-HOUR_MS);
  try {
    const answer = await t.callUntilAnswered(subject, { key: "k" }, t.work("next"));
    check(
      answer.value === "next",
      `after the clock went back an hour, the key of a lost owner was ${describeAnswer(answer)}`,
    );
  } finally {
    restoreClock();
  }
  return "in one process: after the clock went back an hour, the key of a lost owner was usable after its lease";
}

export const time = [
  {
    number: 19,
    title: "Retentions of 30 and 400 days, zero, negative and fractional ones are kept or refused",
    async run(t) {
      const found = [];
      for (const retentionMs of [30 * DAY_MS, 400 * DAY_MS, 0, -1_000, 1_500.5])
        found.push(await problemWithRetention(t, retentionMs));
      const problems = found.flatMap(({ problem }) => problem ?? []);
      if (problems.length > 0) throw new Failure(problems.join("; "));
      return found.map(({ note }) => note).join("; ");
    },
  },
  {
    number: 20,
    title: "Leases are judged by the store, whatever the clock of an application says",
    run: (t) => (t.library.isShared ? underOtherClocks(t) : underOneClock(t)),
  },
  {
    number: 21,
    title: "A backlog of expired records gives no expired answer, and is removed",
    deadlineMs: 240_000,
    async run(t) {
      const { backlog, library } = t;
      const subject = await t.open({ retentionMs: 1_000, purges: true });
      // Loads what the first call loads.
      await subject.call({ key: "warm" }, () => OUTCOME);
      const atStart = usedHeap();
      let next = 0;
      await Promise.all(
        Array.from({ length: IN_FLIGHT }, async () => {
          while (next < backlog) await subject.call({ key: `k${next++}` }, () => OUTCOME);
        }),
      );
      const whenFull = usedHeap();
      await sleep(3_200);
      for (let i = 0; i < SAMPLE; i++) {
        const key = `k${Math.floor((i * backlog) / SAMPLE)}`;
        const answer = await subject.call({ key }, t.work(key));
        check(answer.value === key, `an expired key was ${describeAnswer(answer).slice(0, 80)}`);
      }
      const size = `${backlog.toLocaleString("en")} expired records`;
      if (library.collectsItself !== undefined)
        return `${size}: no expired answer. ${library.collectsItself}`;
      const left = await untilRemoved(t, atStart, whenFull);
      check(
        left.share <= left.most,
        `of ${size}, ${Math.round(left.share * 100)} % (${left.what}) were still there, and no longer removed`,
      );
      return `${size}: no expired answer; ${Math.max(0, Math.round(left.share * 100))} % (${left.what}) were left`;
    },
  },
];

/** Waits until the records are gone: counted in the store, or in memory by the heap. */
async function untilRemoved(t, atStart, whenFull) {
  const { backlog, library } = t;
  const giveUpAt = performance.now() + REMOVAL_MS;
  let least = Number.POSITIVE_INFINITY;
  let removedAt = performance.now();
  for (;;) {
    library.purgeNow?.(t.place);
    const left =
      library.countRecords !== undefined
        ? {
            share: ((await library.countRecords(t.place)) - SAMPLE) / backlog,
            what: "records in the store",
            most: MOST_RECORDS,
          }
        : {
            share: (usedHeap() - atStart) / (whenFull - atStart),
            what: "of the heap that they took",
            most: MOST_HEAP,
          };
    if (left.share < least - 0.01) removedAt = performance.now();
    least = Math.min(least, left.share);
    const isOver = performance.now() > giveUpAt || performance.now() > removedAt + IDLE_MS;
    if (left.share <= left.most || isOver) return left;
    await sleep(1_000);
  }
}
