/** What the first client gets is what the application said: the layer adds nothing to it and takes nothing away. */
import { expect } from "../cases/expect.ts";
import { expectSame, textOf, valuesOf } from "./answers.ts";
import { completingAt } from "./interposed.ts";
import { SAMPLES } from "./samples.ts";
import { answer, countingRuns, json, stream, text, type, utf8 } from "./script.ts";
import { type Case, type Cases, expectNotYet } from "./stage.ts";

export const firstAnswers: Cases = {
  ...Object.fromEntries(
    Object.entries(SAMPLES).map(([name, sample]): [string, Case] => [
      `${name} leaves as the bare application sends it`,
      {
        ...(sample.needs && { needs: sample.needs }),
        why: "Whoever puts the layer in front of an application must not see its answers change.",
        async check(stage) {
          const asked = { method: sample.method ?? "POST" };
          const given = sample.options && { options: sample.options };
          const bare = await (await stage.bare(sample.answer)).ask(asked);
          const first = await (await stage.app(sample.answer, given)).ask(asked);
          expectSame(first, bare);
          expect("Idempotent-Replayed of the first answer", valuesOf(first, "idempotent-replayed"), []);
        },
      },
    ]),
  ),
  "no byte leaves before the store has answered": {
    needs: ["arrival"],
    why: "An answer that the client has and the store has not is forgotten in a crash, and the work is done again.",
    async check(stage) {
      const gate = stage.gate();
      const store = completingAt(gate);
      const app = await stage.app(countingRuns, store.given);
      const visit = app.visit();
      await stage.until(() => store.asked() > 0);
      await expectNotYet("whether anything has arrived before the store completed", visit.head);
      gate.open();
      expect("the answer", textOf((await visit.rest()).body), '{"run":1}');
    },
  },
  "no byte of a stream leaves before the store has answered": {
    needs: ["arrival", "stream"],
    why: "What is streamed is gone: the store must know that it was before anybody has a byte of it.",
    async check(stage) {
      const gate = stage.gate();
      const store = completingAt(gate);
      const script = () => answer(200, stream([utf8("data: 1\n\n")]), [type("text/event-stream")]);
      const app = await stage.app(script, store.given);
      const visit = app.visit();
      await stage.until(() => store.asked() > 0);
      await expectNotYet("whether anything has arrived before the store completed", visit.head);
      gate.open();
      expect("the answer", textOf((await visit.rest()).body), "data: 1\n\n");
    },
  },
  "the handler finds its attempt, with a fence and keys for others": {
    why: "Without the attempt the handler cannot hand its fence to a database, nor a key to a provider.",
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
      const found: unknown = JSON.parse(textOf((await app.ask()).body));
      expect("what the handler saw", found, { isFenced: true, number: 1, derived: 43, isLost: false });
    },
  },
  "a handler whose request has no key has no attempt": {
    why: "Whoever is handed an attempt believes that it runs once.",
    async check(stage) {
      const app = await stage.app(({ request: { attempt } }) =>
        answer(200, text(typeof attempt), [type("text/plain")]),
      );
      expect("what the handler saw", textOf((await app.ask({ key: [] })).body), "undefined");
    },
  },
  "the first answer has the cookies and headers that its replay has not": {
    why: "A cookie belongs to the client that it was set for; a retry may come from anybody who knows the key.",
    async check(stage) {
      const app = await stage.app(() =>
        answer(200, json({}), [
          ["Set-Cookie", "session=1"],
          ["X-Request-Id", "r-1"],
        ]),
      );
      const first = await app.ask();
      expect("Set-Cookie of the first answer", valuesOf(first, "set-cookie"), ["session=1"]);
      expect("X-Request-Id of the first answer", valuesOf(first, "x-request-id"), ["r-1"]);
      const again = await app.ask();
      expect("Set-Cookie of the replay", valuesOf(again, "set-cookie"), []);
      expect("X-Request-Id of the replay", valuesOf(again, "x-request-id"), []);
    },
  },
};
