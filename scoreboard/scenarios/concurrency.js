/** Scenarios about callers that share one key at the same time. */
import { setTimeout as sleep } from "node:timers/promises";
import { check, describeAnswer, Failure, NotApplicable } from "../judgement.js";

const KEYS = 10;
const CALLERS = 30;

export const concurrency = [
  {
    number: 1,
    title: "Concurrent first calls of one key run the work once",
    async run(t) {
      const subjects = [await t.open(), await t.open()];
      for (let key = 0; key < KEYS; key++) {
        const answers = await Promise.all(
          Array.from({ length: CALLERS }, (_, i) =>
            subjects[i % 2].call({ key: `k${key}`, body: { n: key } }, t.work(`e${key}`, { ms: 50 })),
          ),
        );
        const runs = t.effects(`e${key}`);
        check(runs === 1, `${CALLERS} callers of one key ran the work ${runs} times`);
        // A caller may give up waiting on a busy machine; it must not get another value.
        const wrong = answers.find(({ value, refusal }) => value !== `e${key}` && refusal !== "pending");
        check(wrong === undefined, `a caller was ${wrong && describeAnswer(wrong)}`);
      }
      return `${KEYS} keys, ${CALLERS} callers each, on two clients: one run and one answer for each key`;
    },
  },
  {
    number: 2,
    title: "Concurrent calls after the record expired run the work once",
    async run(t) {
      const retentionMs = t.leaseMs * 2;
      const subject = await t.open({ retentionMs });
      await subject.call({ key: "k" }, t.work("first"));
      // Some libraries count retention in whole seconds, and round up.
      await sleep(retentionMs + 2_200);
      await Promise.all(
        // A longer retention, where the library takes it for a call: the second record must not expire meanwhile.
        Array.from({ length: 20 }, () =>
          subject.call({ key: "k", retentionMs: 60_000 }, t.work("second", { ms: 50 })),
        ),
      );
      const runs = t.effects("second");
      check(runs === 1, `20 callers after the retention ran the work ${runs} times`);
      return "20 callers after the retention: one run";
    },
  },
  {
    number: 23,
    title: "A waiter that gives up does not affect the owner",
    async run(t) {
      const subject = await t.open();
      const { answer: owner } = await t.begin(subject, { key: "k" }, t.work("e", { ms: 1_500 }));
      const impatient = await subject.call({ key: "k", waitMs: 300 }, t.work("e"));
      const patient = await subject.call({ key: "k" }, t.work("e"));
      const first = await owner;
      check(t.effects("e") === 1, `the work ran ${t.effects("e")} times`);
      check(first.value === "e", `the owner was ${describeAnswer(first)}`);
      check(patient.value === "e", `a later waiter was ${describeAnswer(patient)}`);
      return `the impatient caller was ${describeAnswer(impatient)}; owner and next caller got the value`;
    },
  },
  {
    number: 24,
    title: "After a failure, waiting and retrying callers run the work once more",
    async run(t) {
      const subject = await t.open();
      const error = new Error("no funds");
      const { answer: failing } = await t.begin(subject, { key: "k" }, t.work("failed", { ms: 500, error }));
      const waiters = Array.from({ length: 10 }, () =>
        subject.call({ key: "k" }, t.work("retried", { ms: 100 })),
      );
      await failing;
      await Promise.all(waiters);
      const last = await subject.call({ key: "k" }, t.work("retried", { ms: 100 }));
      const runs = t.effects("retried");
      if (runs === 0 && last.refusal === "failed")
        throw new NotApplicable(
          "It keeps a failure as the outcome of its key, so a failed key is not retried.",
        );
      check(t.effects("failed") === 1, `the failing work ran ${t.effects("failed")} times`);
      check(runs === 1, `10 waiters and a retry after a failure ran the work ${runs} times`);
      check(last.value === "retried", `the last retry was ${describeAnswer(last)}`);
      return "10 waiters and a retry: one new run";
    },
  },
  {
    number: 26,
    title: "Nested calls run each body once",
    async run(t) {
      const subject = await t.open();
      const nested = (effect, inner) => async () => {
        t.record(effect);
        const answer = await subject.call(inner, t.work(`${effect}-inner`));
        if (answer.refusal !== undefined) throw new Error(`the inner call was ${describeAnswer(answer)}`);
        return answer.value;
      };
      for (let i = 0; i < 2; i++) {
        const answer = await subject.call(
          { key: "outer" },
          nested("outer", { key: "inner", operation: "inner" }),
        );
        check(answer.value === "outer-inner", `the outer call was ${describeAnswer(answer)}`);
      }
      for (const effect of ["outer", "outer-inner"])
        check(t.effects(effect) === 1, `${effect} ran ${t.effects(effect)} times`);

      const busy = { key: "busy", operation: "inner" };
      const { answer: running } = await t.begin(subject, busy, t.work("busy", { ms: 1_500 }));
      await subject.call({ key: "outer-2" }, nested("outer-2", { ...busy, waitMs: 0 }));
      await running;
      if (t.effects("outer-2") !== 1)
        throw new Failure(
          `one outer call whose inner key was busy ran its body ${t.effects("outer-2")} times`,
        );
      return "two outer calls: one run of each body; an outer call with a busy inner key ran its body once";
    },
  },
];
