/** Handlers that fail, and handlers or options that decide about the key: the framework answers as without the layer. */
import { current } from "../../http/current-replay.ts";
import { expect } from "../cases/expect.ts";
import {
  expectMarker,
  expectReplay,
  expectSame,
  expectToldUnkept,
  expectUnkept,
  headerValues,
  toText,
} from "./response-checks.ts";
import { answer, countingRuns, type HandlerScript, json, text, type } from "./script.ts";
import type { CaseApp, ExchangeCase, ExchangeCases } from "./stage.ts";

/** The first run answers with this status, the next ones with 201. */
const failingOnce =
  (status: number): HandlerScript =>
  ({ number }) =>
    number === 1 ? answer(status, json({ error: status })) : answer(201, json({ run: number }));

const throwing: HandlerScript = ({ number }) => {
  if (number === 1) throw new Error("the handler failed");
  return answer(201, json({ run: number }));
};

async function expectSecondRun(app: CaseApp): Promise<void> {
  const again = await app.settle();
  expect("the status of the retry", again.status, 201);
  expect("the answer to the retry", toText(again.body), '{"run":2}');
  expectReplay(await app.ask(), again);
  expect("how often the handler ran", app.runs(), 2);
}

export const failures: ExchangeCases = {
  ...Object.fromEntries(
    [500, 503, 401, 403, 408, 425, 429].map((status): [string, ExchangeCase] => [
      `a ${status} releases the key`,
      {
        why: "A retry of a failed or refused request must not get the failure for ever.",
        async check(stage) {
          const bare = await (await stage.bare(failingOnce(status))).ask();
          const app = await stage.app(failingOnce(status));
          expectSame(await app.ask(), bare);
          await expectSecondRun(app);
        },
      },
    ]),
  ),
  "the framework answers for a handler that throws, and the key is released": {
    needs: ["thrown"],
    why: "The application's own error handling must still work.",
    async check(stage) {
      const bare = await (await stage.bare(throwing)).ask();
      const app = await stage.app(throwing);
      expectSame(await app.ask(), bare);
      await expectSecondRun(app);
    },
  },
  "a header that the server rejects is an error of the handler, and releases the key": {
    needs: ["thrown", "refused-headers"],
    why: "An invalid header value must fail one request, not the process and all other requests.",
    async check(stage) {
      const script: HandlerScript = ({ number }) =>
        number === 1 ? answer(200, json({}), [["X-Owner", "\u0416"]]) : answer(201, json({ run: number }));
      const app = await stage.app(script);
      expect("the status of the first answer", (await app.ask()).status, 500);
      await expectSecondRun(app);
    },
  },
  "an invalid header from current() is answered with an error, and nothing hangs": {
    needs: ["thrown"],
    why: "A function that computes current answers can return invalid headers.",
    async check(stage) {
      const replay = current(() => ({ headers: { "X-Owner": "\u0416" }, body: "today" }));
      const app = await stage.app(countingRuns, { options: { replay } });
      expect("the status of the first answer", (await app.ask()).status, 201);
      for (const again of [await app.ask(), await app.ask()])
        expect("whether the retry got an error", again.status >= 500, true);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "the framework answers for a handler that throws without a key": {
    needs: ["thrown"],
    why: "A client that sends no key must not notice the layer.",
    async check(stage) {
      const bare = await (await stage.bare(throwing)).ask({ key: [] });
      expectSame(await (await stage.app(throwing)).ask({ key: [] }), bare);
    },
  },
  'a handler can release the key with keep("release")': {
    why: "Only the handler knows that nothing was done although it answers 200.",
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
  'a handler can leave a marker with keep("marker")': {
    why: "An answer that contains a secret is sent once and never stored.",
    async check(stage) {
      const app = await stage.app(({ request: { attempt } }) => {
        attempt?.keep("marker");
        return answer(201, json({ secret: "s" }));
      });
      const first = await app.ask();
      expect("the first answer", toText(first.body), '{"secret":"s"}');
      expectToldUnkept(first);
      expectUnkept(await app.ask());
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "the option keep can leave a marker": {
    why: "An answer that contains a secret is sent once and never stored.",
    async check(stage) {
      const app = await stage.app(countingRuns, {
        options: { keep: { 201: "marker" }, onNotKept: "status" },
      });
      const first = await app.ask();
      expect("the first answer", toText(first.body), '{"run":1}');
      expectToldUnkept(first);
      expectMarker(await app.ask(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "the option keep can decide by a header": {
    why: "A header often tells whether a failure is final.",
    async check(stage) {
      const script: HandlerScript = ({ number }) =>
        number === 1
          ? answer(200, text("later"), [type("text/plain"), ["Transient-Error", "true"]])
          : answer(201, json({ run: number }));
      const app = await stage.app(script, {
        options: { keep: (found) => (found.header("transient-error") === "true" ? "release" : undefined) },
      });
      expect("Transient-Error", headerValues(await app.ask(), "transient-error"), ["true"]);
      await expectSecondRun(app);
    },
  },
  "the second attempt has number 2, and derives the same keys": {
    why: "A provider recognises a retry by the key of the first attempt.",
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
