/** Scenarios about failures: of the work, and of the store at every step of a call. */
import { setTimeout as sleep } from "node:timers/promises";
import { check, describeAnswer, Failure, NotApplicable } from "../judgement.js";

const ANSWER_MS = 15_000;

/** The answer, or that there was none in time. */
function answerInTime(call) {
  let late;
  const timeout = new Promise((resolve) => {
    late = setTimeout(resolve, ANSWER_MS, "none");
  });
  return Promise.race([call, timeout]).finally(() => clearTimeout(late));
}

/** Ends the fault some time after it has met a call: a busy machine may take long to make that call. */
async function healLater(faults, ms, onHealed = () => {}) {
  await Promise.race([faults.met(), sleep(5_000)]);
  await sleep(ms);
  onHealed();
  faults.set("ok");
}

/** Each fault, when it begins, and how long it lasts. */
const FAULTS = [
  { name: "the store refuses the claim", mode: "refuse", at: "claim", lastsMs: 1_000 },
  { name: "the store hangs at the claim", mode: "hang", at: "claim", lastsMs: 4_000 },
  { name: "the answer to the claim is lost", mode: "drop-replies", at: "claim", lastsMs: 500 },
  { name: "the store refuses the completion", mode: "refuse", at: "completion", lastsMs: 1_000 },
  { name: "the store hangs at the completion", mode: "hang", at: "completion", lastsMs: 2_000 },
  { name: "the answer to the completion is lost", mode: "drop-replies", at: "completion", lastsMs: 500 },
];

/** Runs one key through one fault, and then retries it until after its lease. What went wrong, or undefined. */
async function problemUnder(t, fault) {
  const { faults, subject } = await t.openWithFaults({ leaseMs: t.faultLeaseMs, retentionMs: 600_000 });
  const request = { key: fault.name, waitMs: 2_000 };
  const effect = fault.name;
  let isBroken = false;
  let ranUnclaimed = false;
  const breakStore = () => {
    isBroken = true;
    faults.set(fault.mode);
    void healLater(faults, fault.lastsMs, () => {
      isBroken = false;
    });
  };
  // A first call, so that connections and statements are there.
  await subject.call({ key: "warm" }, t.work("warm"));

  if (fault.at === "claim") breakStore();
  const answer = await answerInTime(
    subject.call(request, async () => {
      t.record(effect);
      if (isBroken && fault.mode === "refuse") ranUnclaimed = true;
      if (fault.at === "completion") breakStore();
      return effect;
    }),
  );
  if (answer === "none") return `${fault.name}: no answer within ${ANSWER_MS / 1_000} s`;
  if (ranUnclaimed) return `${fault.name}: the work ran without a claim`;

  let last = answer;
  const giveUpAt = performance.now() + t.faultLeaseMs + fault.lastsMs + 2_500;
  do {
    await sleep(500);
    last = await answerInTime(subject.call(request, t.work(effect)));
    if (last === "none") return `${fault.name}: a retry got no answer within ${ANSWER_MS / 1_000} s`;
  } while (performance.now() < giveUpAt);
  if (t.effects(effect) > 1)
    return `${fault.name}: retries ran the work again, ${t.effects(effect)} runs (the first call was ${describeAnswer(answer)})`;
  if (last.value !== effect)
    return `${fault.name}: after the store was back, a retry was ${describeAnswer(last)}`;
  return undefined;
}

export const failures = [
  {
    number: 17,
    title:
      "A store that fails, hangs or loses answers: no call hangs, no effect repeats, and the key is usable again",
    deadlineMs: 120_000,
    async run(t) {
      const problems = (await Promise.all(FAULTS.map((fault) => problemUnder(t, fault)))).filter(
        (problem) => problem !== undefined,
      );
      if (problems.length > 0) throw new Failure(problems.join("; "));
      return `${FAULTS.length} faults: every call was answered, every effect happened once, and retries got its value`;
    },
  },
  {
    number: 18,
    title: "A claim whose answer was lost recognises itself",
    async run(t) {
      const { faults, subject } = await t.openWithFaults({ leaseMs: 60_000 });
      await subject.call({ key: "warm" }, t.work("warm"));
      faults.set("drop-replies");
      void healLater(faults, 300);
      const request = { key: "k", waitMs: 3_000 };
      const first = await answerInTime(subject.call(request, t.work("e")));
      if (first !== "none" && first.value === "e") {
        check(t.effects("e") === 1, `the work ran ${t.effects("e")} times`);
        return "the call that lost its answer got its key and ran once";
      }
      const retry = await answerInTime(t.callUntilAnswered(subject, request, t.work("e"), 8_000));
      const told = first === "none" ? "not answered" : describeAnswer(first);
      check(
        retry !== "none" && retry.value === "e",
        `the call was ${told}; its retry was ${retry === "none" ? "not answered" : describeAnswer(retry)}, under a lease of 60 s`,
      );
      check(t.effects("e") === 1, `the work ran ${t.effects("e")} times`);
      return `the call was ${told}, and its retry ran once`;
    },
  },
  {
    number: 25,
    title: "A failure frees or holds its key, as the route decides",
    async run(t) {
      const subject = await t.open({ keep: { 502: "release", 500: "keep" } });
      const fail = (effect, status) => async () => {
        t.record(effect);
        throw Object.assign(new Error(effect), { status });
      };
      const nothing = { key: "nothing", onFailure: "release" };
      await subject.call(nothing, fail("nothing-happened", 502));
      const retried = await subject.call(nothing, t.work("nothing-retried"));
      check(
        retried.value === "nothing-retried",
        `after a failure that did nothing, a retry was ${describeAnswer(retried)}`,
      );
      const unclear = { key: "unclear", operation: "refund", onFailure: "hold", holdsUnknown: true };
      await subject.call(unclear, fail("maybe-happened", 500));
      const held = await subject.call({ ...unclear, waitMs: 1_000 }, t.work("maybe-retried"));
      check(
        t.effects("maybe-retried") === 0,
        "after a failure whose effect may have happened, a retry ran the work again",
      );
      return `a failure that did nothing was retried; after one that may have had its effect, a retry was ${describeAnswer(held)}`;
    },
  },
  {
    number: 29,
    title: "Every documented client of the store works",
    async run(t) {
      const clients = Object.keys(t.library.clients ?? {});
      if (clients.length === 0) throw new NotApplicable("It documents no client.");
      for (const client of clients) {
        const subject = await t.open({ client });
        const request = { key: `k-${client}`, body: { client } };
        const running = [1, 2, 3].map(() => subject.call(request, t.work(client, { ms: 100 })));
        const answers = [...(await Promise.all(running)), await subject.call(request, t.work(client))];
        const wrong = answers.find(({ value }) => value !== client);
        check(wrong === undefined, `with ${client}, a caller was ${wrong && describeAnswer(wrong)}`);
        check(t.effects(client) === 1, `with ${client}, the work ran ${t.effects(client)} times`);
      }
      return `${clients.join(", ")}: one run, its value for three concurrent callers and a replay`;
    },
  },
];
