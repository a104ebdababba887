/** Handlers that fail, and handlers that have their own say: the framework answers as ever, and the key follows. */
import { current } from "../../http/replay.ts";
import { expect } from "../cases/expect.ts";
import { expectMarker, expectReplay, expectSame, textOf, valuesOf } from "./answers.ts";
import { answer, countingRuns, json, type Script, text, type } from "./script.ts";
import type { App, Case, Cases } from "./stage.ts";

/** The first run answers with this status; the next ones well. */
const failingOnce =
  (status: number): Script =>
  ({ number }) =>
    number === 1 ? answer(status, json({ error: status })) : answer(201, json({ run: number }));

const throwing: Script = ({ number }) => {
  if (number === 1) throw new Error("the handler failed");
  return answer(201, json({ run: number }));
};

async function expectSecondRun(app: App): Promise<void> {
  const again = await app.settle();
  expect("the status of the retry", again.status, 201);
  expect("the answer to the retry", textOf(again.body), '{"run":2}');
  expectReplay(await app.ask(), again);
  expect("how often the handler ran", app.runs(), 2);
}

export const failures: Cases = {
  ...Object.fromEntries(
    [500, 503, 401, 403, 408, 425, 429].map((status): [string, Case] => [
      `a ${status} frees the key`,
      {
        why: "A retry of what failed, or was not even begun, must not be answered with the failure for ever.",
        async check(stage) {
          const bare = await (await stage.bare(failingOnce(status))).ask();
          const app = await stage.app(failingOnce(status));
          expectSame(await app.ask(), bare);
          await expectSecondRun(app);
        },
      },
    ]),
  ),
  "a handler that throws is answered for by the framework, and frees the key": {
    needs: ["thrown"],
    why: "An application's own handling of errors must go on working.",
    async check(stage) {
      const bare = await (await stage.bare(throwing)).ask();
      const app = await stage.app(throwing);
      expectSame(await app.ask(), bare);
      await expectSecondRun(app);
    },
  },
  "a header that the server refuses is an error of the handler, and frees the key": {
    needs: ["thrown", "refused-headers"],
    why: "A name that a header cannot hold must fail one request, not the process and everybody else's requests.",
    async check(stage) {
      const script: Script = ({ number }) =>
        number === 1 ? answer(200, json({}), [["X-Owner", "\u0416"]]) : answer(201, json({ run: number }));
      const app = await stage.app(script);
      expect("the status of the first answer", (await app.ask()).status, 500);
      await expectSecondRun(app);
    },
  },
  "a header that an answer of today cannot hold is an error of the application, and nothing hangs": {
    needs: ["thrown"],
    why: "An application that reads its answers anew can be wrong about them too.",
    async check(stage) {
      const replay = current(() => ({ headers: { "X-Owner": "\u0416" }, body: "today" }));
      const app = await stage.app(countingRuns, { options: { replay } });
      expect("the status of the first answer", (await app.ask()).status, 201);
      for (const again of [await app.ask(), await app.ask()])
        expect("whether the retry was answered for by the framework", again.status >= 500, true);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a handler that throws without a key is answered for by the framework": {
    needs: ["thrown"],
    why: "Whoever sends no key must not notice the layer.",
    async check(stage) {
      const bare = await (await stage.bare(throwing)).ask({ key: [] });
      expectSame(await (await stage.app(throwing)).ask({ key: [] }), bare);
    },
  },
  "a handler that says that nothing was done frees the key": {
    why: "Only the handler knows that its 200 stands for nothing that must not be repeated.",
    async check(stage) {
      const app = await stage.app(({ number, request: { attempt } }) => {
        if (number > 1) return answer(201, json({ run: number }));
        attempt?.keep("release");
        return answer(200, json({ queued: false }));
      });
      expect("the status of the first answer", (await app.ask()).status, 200);
      await expectSecondRun(app);
    },
  },
  "a handler that keeps its secret leaves a marker": {
    why: "An answer that holds a secret is given once and never stored.",
    async check(stage) {
      const app = await stage.app(({ request: { attempt } }) => {
        attempt?.keep("marker");
        return answer(201, json({ secret: "s" }));
      });
      const first = await app.ask();
      expect("the first answer", textOf(first.body), '{"secret":"s"}');
      expectMarker(await app.ask(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "an application that keeps a secret leaves a marker": {
    why: "An answer that holds a secret is given once and never stored.",
    async check(stage) {
      const app = await stage.app(countingRuns, { options: { keep: { 201: "marker" } } });
      const first = await app.ask();
      expect("the first answer", textOf(first.body), '{"run":1}');
      expectMarker(await app.ask(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "an application that judges answers by a header is listened to": {
    why: "Whether a failure is final is often said in a header.",
    async check(stage) {
      const script: Script = ({ number }) =>
        number === 1
          ? answer(200, text("later"), [type("text/plain"), ["Transient-Error", "true"]])
          : answer(201, json({ run: number }));
      const app = await stage.app(script, {
        options: { keep: (found) => (found.header("transient-error") === "true" ? "release" : undefined) },
      });
      expect("Transient-Error", valuesOf(await app.ask(), "transient-error"), ["true"]);
      await expectSecondRun(app);
    },
  },
  "the second attempt knows that it is the second, and derives the same keys": {
    why: "A provider recognises a retry by the key that it was given before.",
    async check(stage) {
      const seen: unknown[] = [];
      const app = await stage.app(({ number, request: { attempt } }) => {
        seen.push({ number: attempt?.number, derived: attempt?.deriveKey("psp") });
        return number === 1 ? answer(503) : answer(201, json({ run: number }));
      });
      await app.ask();
      await expectSecondRun(app);
      await stage.until(() => seen.length === 2);
      const [first, second] = seen as { number: number; derived: string }[];
      expect("the numbers of the attempts", [first?.number, second?.number], [1, 2]);
      expect("the derived keys", second?.derived, first?.derived);
    },
  },
};
