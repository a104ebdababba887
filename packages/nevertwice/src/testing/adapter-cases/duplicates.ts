/** Requests with the same key, at the same time or one after another: one runs the handler, the others get its answer. */
import { expect } from "../cases/expect.ts";
import {
  type CollectedResponse,
  expectProblem,
  expectReplay,
  expectRetryAfter,
  expectUnmarked,
  problemCode,
  toText,
} from "./response-checks.ts";
import { answer, countingRuns, type HandlerScript, json } from "./script.ts";
import { type CaseGate, type ExchangeCases, expectNotYet } from "./stage.ts";

const CROWD = 50;

const runningUntil =
  (gate: CaseGate): HandlerScript =>
  async ({ number }) => {
    await gate.opened;
    return answer(201, json({ run: number }));
  };

export const duplicates: ExchangeCases = {
  "another body with a completed key is a conflict, and changes nothing": {
    why: "A reused key must neither run the other request nor change the kept answer.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      const first = await app.ask();
      expectProblem(await app.ask({ body: '{"amount":8}' }), 422, "conflict");
      expectReplay(await app.ask(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "another body with the key of a running request is a conflict": {
    why: "With a 409, the client would retry the wrong request for ever.",
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
  "a duplicate of a running request gets 409, and later the answer": {
    why: "The layer exists to prevent a duplicate from running next to the first request.",
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
      expectUnmarked(first, "the first answer");
      expectReplay(await app.ask(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "of fifty equal requests at once, one runs": {
    why: "A double click, a retry and a proxy's repeat arrive at the same time, not one after another.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(runningUntil(gate));
      const visits = Array.from({ length: CROWD }, () => app.visit());
      await stage.until(() => app.runs() > 0);
      // All except one are answered while that one still runs.
      const refused = new Set<number>();
      visits.forEach((visit, i) => {
        visit.head.then(({ status }) => status === 409 && refused.add(i));
      });
      await stage.until(() => refused.size === CROWD - 1);
      gate.open();
      const answers = await Promise.all(visits.map((visit) => visit.rest()));
      expect("how many ran", answers.filter(({ status }) => status === 201).length, 1);
      expect(
        "how many are pending",
        answers.filter((each) => problemCode(each) === "pending").length,
        CROWD - 1,
      );
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a duplicate that waits gets the answer of the first request": {
    why: "Some clients cannot retry later, so they wait.",
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
  "a duplicate that has waited for waitMs gets 409": {
    why: "Endless waiting ties up both sides.",
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
  "the same body with two keys is two requests": {
    why: "Two customers may order the same thing.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      const answers = [await app.ask({ key: "one" }), await app.ask({ key: "two" })];
      expect(
        "the answers",
        answers.map(({ body }) => toText(body)),
        ['{"run":1}', '{"run":2}'],
      );
    },
  },
  "many keys at once run once each": {
    why: "Answers that are held back at the same time must not be mixed up.",
    async check(stage) {
      const app = await stage.app(({ number }) => answer(200, json({ run: number })));
      const named = Array.from({ length: 20 }, (_, i) => `key-${i}`);
      const firsts = await Promise.all(named.map((key) => app.ask({ key })));
      const again = await Promise.all(named.map((key) => app.ask({ key })));
      for (const [i, first] of firsts.entries()) expectReplay(again[i] as CollectedResponse, first);
      expect(
        "how many different answers there are",
        new Set(firsts.map(({ body }) => toText(body))).size,
        20,
      );
      expect("how often the handler ran", app.runs(), 20);
    },
  },
};
