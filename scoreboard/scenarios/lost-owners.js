/** Scenarios about owners of a key that are slow, paused, killed or shut down. */
import { setTimeout as sleep } from "node:timers/promises";
import { check, describeAnswer, NotApplicable } from "../judgement.js";

/** An owner that runs `effect` and is then lost: killed with SIGKILL, or in memory a handler that never returns. */
async function loseOwner(t, { effect, ...request }) {
  const options = { leaseMs: t.leaseMs, retentionMs: 3_600_000 };
  if (t.library.isShared) {
    const child = await t.child({ options, request, effect });
    await child.heard("began");
    await child.kill();
    return t.open(options);
  }
  const subject = await t.open({ ...options, maxRunMs: 500 });
  const began = new Promise((resolve) => {
    subject.call(request, () => {
      t.record(effect);
      resolve();
      return new Promise(() => {});
    });
  });
  await began;
  return subject;
}

export const lostOwners = [
  {
    number: 4,
    title: "Work that takes longer than its lease runs once",
    async run(t) {
      const subject = await t.open({ leaseMs: t.leaseMs });
      const { answer: owner } = await t.begin(subject, { key: "k" }, t.work("e", { ms: t.leaseMs * 2.75 }));
      const answers = [];
      for (let i = 0; i < 3; i++) {
        await sleep(t.leaseMs * 0.6);
        answers.push(subject.call({ key: "k", waitMs: t.leaseMs * 6 }, t.work("e", { ms: 100 })));
      }
      const all = await Promise.all([owner, ...answers]);
      check(t.effects("e") === 1, `work that took 2.75 leases ran ${t.effects("e")} times`);
      const wrong = all.find(({ value }) => value !== "e");
      check(wrong === undefined, `a caller was ${wrong && describeAnswer(wrong)}`);
      return "work that took 2.75 leases: one run, and three duplicates got its value";
    },
  },
  {
    number: 5,
    title: "An owner that was overtaken cannot change the newer record, and is told",
    async run(t) {
      const notes = [];
      for (const ending of ["completes", "fails"]) {
        const subject = await t.open({ leaseMs: t.leaseMs, maxRunMs: 500 });
        let resume;
        const until = new Promise((resolve) => {
          resume = resolve;
        });
        const request = { key: `late-${ending}` };
        const error = ending === "fails" ? new Error("late failure") : undefined;
        const { answer: late } = await t.begin(subject, request, t.work("late", { until, error }));
        await sleep(t.leaseMs + 1_600);
        const next = await t.callUntilAnswered(subject, request, t.work(`next-${ending}`, { value: "next" }));
        check(next.value === "next", `after the lease, the next caller was ${describeAnswer(next)}`);
        resume();
        const told = await late;
        const after = await subject.call(request, t.work(`again-${ending}`, { value: "again" }));
        check(
          after.value === "next",
          `when the first owner ${ending} late, a retry was ${describeAnswer(after)} instead of the newer outcome`,
        );
        check(t.effects(`again-${ending}`) === 0, "the retry ran the work again");
        check(
          told.refusal !== undefined || told.value === "next",
          `the late owner was ${describeAnswer(told)}, as if it had kept the key`,
        );
        notes.push(`${ending} late: ${describeAnswer(told)}`);
      }
      return `the newer outcome stayed; the late owner, when it ${notes.join("; when it ")}`;
    },
  },
  {
    number: 6,
    title: "The key of a killed process is usable again after the lease",
    async run(t) {
      const subject = await loseOwner(t, { key: "k", effect: "lost" });
      const before = performance.now();
      const answer = await t.callUntilAnswered(subject, { key: "k" }, t.work("next"));
      check(
        answer.value === "next",
        `long after the lease of its lost owner (retention 1 h), the key was ${describeAnswer(answer)}`,
      );
      return `the next caller ran ${Math.round((performance.now() - before) / 100) / 10} s after the owner was lost`;
    },
  },
  {
    number: 7,
    title: "A process killed after its effect leaves an unknown outcome, seen and decided by an operator",
    async run(t) {
      const request = { key: "k", holdsUnknown: true };
      const subject = await loseOwner(t, { ...request, effect: "charge" });
      await sleep(t.leaseMs + 2_000);
      const answer = await subject.call({ ...request, waitMs: 1_000 }, t.work("charge"));
      check(
        t.effects("charge") === 1,
        `a retry after the lease ran the effect again: ${t.effects("charge")} times`,
      );
      check(
        answer.refusal === "unknown",
        `a retry was ${describeAnswer(answer)}, which does not tell a lost call from a running one`,
      );
      const found = await subject.listUnknown();
      check(found.length === 1, `${found.length} keys are listed as unknown`);
      await subject.resolveUnknown(found[0], "settled");
      const after = await subject.call(request, t.work("charge"));
      check(
        after.value === "settled" && t.effects("charge") === 1,
        `after the decision, a retry was ${describeAnswer(after)}`,
      );
      return "the retry was refused as unknown, the key was listed, and after the decision a retry got the decided value";
    },
  },
  {
    number: 27,
    title: "A shutdown during the work strands no key",
    async run(t) {
      const options = { leaseMs: 60_000, retentionMs: 3_600_000 };
      const [first, second] = [await t.open(options), await t.open(options)];
      const { answer: running } = await t.begin(first, { key: "k" }, t.work("e", { ms: 1_000 }));
      await first.close();
      const answer = await t.callUntilAnswered(second, { key: "k" }, t.work("e"));
      await Promise.race([running, sleep(2_000)]);
      check(answer.value === "e", `long after the shutdown, the key was ${describeAnswer(answer)}`);
      return `after the shutdown the next caller got the value; the work ran ${t.effects("e")} time(s)`;
    },
  },
  {
    number: 30,
    title: "When the store loses its records, an old owner cannot replace the newer record",
    async run(t) {
      const subject = await t.open({ losesRecords: true });
      if (subject.loseRecords === undefined)
        throw new NotApplicable("Its records end only with the process that has their owners.");
      let resume;
      const until = new Promise((resolve) => {
        resume = resolve;
      });
      const request = { key: "k", tenant: "tenant-a" };
      const { answer: old } = await t.begin(subject, request, t.work("old", { until }));
      await subject.loseRecords();
      const next = await subject.call(request, t.work("next"));
      check(
        next.value === "next",
        `after the records were lost, the next caller was ${describeAnswer(next)}`,
      );
      resume();
      const told = await old;
      const after = await subject.call(request, t.work("again"));
      check(
        after.value === "next",
        `after the old owner ended, a retry was ${describeAnswer(after)} instead of the newer outcome`,
      );
      return `the newer outcome stayed; the old owner was ${describeAnswer(told)}`;
    },
  },
];
