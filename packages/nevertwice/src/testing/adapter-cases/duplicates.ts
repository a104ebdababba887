/** Requests with one key at once or after each other: one of them runs the handler, and each of the others is told. */
import { expect } from "../cases/expect.ts";
import {
  type Answer,
  codeOf,
  expectProblem,
  expectReplay,
  expectRetryAfter,
  textOf,
  valuesOf,
} from "./answers.ts";
import { answer, countingRuns, json, type Script } from "./script.ts";
import { type Cases, expectNotYet, type Gate } from "./stage.ts";

const CROWD = 50;

const runningUntil =
  (gate: Gate): Script =>
  async ({ number }) => {
    await gate.opened;
    return answer(201, json({ run: number }));
  };

export const duplicates: Cases = {
  "another body under a key that is done is a conflict, and changes nothing": {
    why: "A key that is used for something else must neither run that nor spoil what it answers for.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      const first = await app.ask();
      expectProblem(await app.ask({ body: '{"amount":8}' }), 422, "conflict");
      expectReplay(await app.ask(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "another body under a key that is running is a conflict": {
    why: "Told to come back later, the client would come back with the wrong request for ever.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(runningUntil(gate));
      const visit = app.visit();
      await stage.until(() => app.runs() === 1);
      expectProblem(await app.ask({ body: '{"amount":8}' }), 422, "conflict");
      gate.open();
      expect("the status of the first", (await visit.rest()).status, 201);
    },
  },
  "a duplicate of a running request is told to come back, and then gets its answer": {
    why: "A duplicate that runs beside the first is what the layer is there to prevent.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(runningUntil(gate));
      const visit = app.visit();
      await stage.until(() => app.runs() === 1);
      const early = await app.ask();
      expectProblem(early, 409, "pending");
      expectRetryAfter(early);
      gate.open();
      const first = await visit.rest();
      expect("Idempotent-Replayed of the first answer", valuesOf(first, "idempotent-replayed"), []);
      expectReplay(await app.ask(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "of fifty equal requests at once one runs": {
    why: "A double click, a retry and a proxy that repeats arrive together, not after each other.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(runningUntil(gate));
      const visits = Array.from({ length: CROWD }, () => app.visit());
      await stage.until(() => app.runs() > 0);
      // All but one are answered while that one still runs.
      const refused = new Set<number>();
      visits.forEach((visit, i) => {
        visit.head.then(({ status }) => status === 409 && refused.add(i));
      });
      await stage.until(() => refused.size === CROWD - 1);
      gate.open();
      const answers = await Promise.all(visits.map((visit) => visit.rest()));
      expect("how many ran", answers.filter(({ status }) => status === 201).length, 1);
      expect("how many are pending", answers.filter((each) => codeOf(each) === "pending").length, CROWD - 1);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a duplicate that waits gets the answer of the first": {
    why: "A client that cannot come back wants to wait.",
    async check(stage) {
      const gate = stage.gate();
      const options = { onPending: "wait", waitMs: 60_000 } as const;
      const app = await stage.app(runningUntil(gate), { options });
      const visit = app.visit();
      await stage.until(() => app.runs() === 1);
      const waiters = [app.visit(), app.visit()];
      await Promise.all(waiters.map(({ head }) => expectNotYet("whether a waiter is answered early", head)));
      gate.open();
      const first = await visit.rest();
      for (const waiter of waiters) expectReplay(await waiter.rest(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a duplicate that has waited long enough is told to come back": {
    why: "Waiting without end ties up both sides.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(runningUntil(gate), { options: { onPending: "wait", waitMs: 30 } });
      const visit = app.visit();
      await stage.until(() => app.runs() === 1);
      expectProblem(await app.ask(), 409, "pending");
      gate.open();
      expect("the status of the first", (await visit.rest()).status, 201);
    },
  },
  "two keys with one body are two requests": {
    why: "Two customers may order the same thing.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      const answers = [await app.ask({ key: "one" }), await app.ask({ key: "two" })];
      expect(
        "the answers",
        answers.map(({ body }) => textOf(body)),
        ['{"run":1}', '{"run":2}'],
      );
    },
  },
  "many keys at once are all carried out, each once": {
    why: "Answers that are held back side by side must not be mixed up.",
    async check(stage) {
      const app = await stage.app(({ number }) => answer(200, json({ run: number })));
      const named = Array.from({ length: 20 }, (_, i) => `key-${i}`);
      const firsts = await Promise.all(named.map((key) => app.ask({ key })));
      const again = await Promise.all(named.map((key) => app.ask({ key })));
      for (const [i, first] of firsts.entries()) expectReplay(again[i] as Answer, first);
      expect(
        "how many different answers there are",
        new Set(firsts.map(({ body }) => textOf(body))).size,
        20,
      );
      expect("how often the handler ran", app.runs(), 20);
    },
  },
};
