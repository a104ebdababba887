/** The first client gets the application's answer: the layer adds nothing and removes nothing. */
import { expect } from "../cases/expect.ts";
import { completingAt } from "./interposed-stores.ts";
import { expectSame, expectUnmarked, headerValues, toText } from "./response-checks.ts";
import { SAMPLES } from "./samples.ts";
import { answer, countingRuns, json, stream, text, type, utf8 } from "./script.ts";
import { type ExchangeCase, type ExchangeCases, expectNotYet } from "./stage.ts";

export const firstAnswers: ExchangeCases = {
  ...Object.fromEntries(
    Object.entries(SAMPLES).map(([name, sample]): [string, ExchangeCase] => [
      `${name} is sent as the bare application sends it`,
      {
        ...(sample.needs && { needs: sample.needs }),
        why: "Adding the layer to an application must not change its answers.",
        async check(stage) {
          const asked = { method: sample.method ?? "POST" };
          const given = sample.options && { options: sample.options };
          const bare = await (await stage.bare(sample.answer)).ask(asked);
          const first = await (await stage.app(sample.answer, given)).ask(asked);
          expectSame(first, bare);
          expectUnmarked(first, "the first answer");
        },
      },
    ]),
  ),
  "sends no byte before the store has answered": {
    needs: ["arrival"],
    why: "If the client has an answer that the store does not have, a crash loses it, and the work is done again.",
    async check(stage) {
      const gate = stage.gate();
      const store = completingAt(gate);
      const app = await stage.app(countingRuns, store.given);
      const visit = app.visit();
      await stage.until(() => store.asked() > 0);
      await expectNotYet("whether anything has arrived before the store completed", visit.head);
      gate.open();
      expect("the answer", toText((await visit.rest()).body), '{"run":1}');
    },
  },
  "sends no byte of a stream before the store has answered": {
    needs: ["arrival", "stream"],
    why: "Sent bytes cannot be taken back, so the store must record the answer before the first one.",
    async check(stage) {
      const gate = stage.gate();
      const store = completingAt(gate);
      const script = () => answer(200, stream([utf8("data: 1\n\n")]), [type("text/event-stream")]);
      const app = await stage.app(script, store.given);
      const visit = app.visit();
      await stage.until(() => store.asked() > 0);
      await expectNotYet("whether anything has arrived before the store completed", visit.head);
      gate.open();
      expect("the answer", toText((await visit.rest()).body), "data: 1\n\n");
    },
  },
  "the handler gets its attempt, with a fence and derived keys": {
    why: "Without the attempt, the handler cannot pass a fence to a database, nor a key to a provider.",
    async check(stage) {
      const app = await stage.app(({ request: { attempt } }) =>
        answer(
          200,
          json({
            isFenced: (attempt?.fence ?? 0) > 0,
            number: attempt?.number,
            derived: attempt?.deriveKey("psp").length,
            isLost: attempt?.signal.aborted,
          }),
        ),
      );
      const found: unknown = JSON.parse(toText((await app.ask()).body));
      expect("what the handler saw", found, { isFenced: true, number: 1, derived: 43, isLost: false });
    },
  },
  "a handler whose request has no key gets no attempt": {
    why: "A handler that gets an attempt relies on running once.",
    async check(stage) {
      const app = await stage.app(({ request: { attempt } }) =>
        answer(200, text(typeof attempt), [type("text/plain")]),
      );
      expect("what the handler saw", toText((await app.ask({ key: [] })).body), "undefined");
    },
  },
  "the first answer has cookies and headers that its replay does not have": {
    why: "A cookie belongs to the client that it was set for; a retry may come from another client that knows the key.",
    async check(stage) {
      const app = await stage.app(() =>
        answer(200, json({}), [
          ["Set-Cookie", "session=1"],
          ["X-Request-Id", "r-1"],
        ]),
      );
      const first = await app.ask();
      expect("Set-Cookie of the first answer", headerValues(first, "set-cookie"), ["session=1"]);
      expect("X-Request-Id of the first answer", headerValues(first, "x-request-id"), ["r-1"]);
      const again = await app.ask();
      expect("Set-Cookie of the replay", headerValues(again, "set-cookie"), []);
      expect("X-Request-Id of the replay", headerValues(again, "x-request-id"), []);
    },
  },
};
