/** A retry gets what the first client got: the same status and bytes, marked as a replay. */
import { expect } from "../cases/expect.ts";
import { expectReplay, headerValues } from "./response-checks.ts";
import { SAMPLES } from "./samples.ts";
import { answer, countingRuns, json } from "./script.ts";
import type { ExchangeCase, ExchangeCases } from "./stage.ts";

const LONG_AGO = "Thu, 15 Nov 1990 10:00:00 GMT";

export const replays: ExchangeCases = {
  ...Object.fromEntries(
    Object.entries(SAMPLES).map(([name, sample]): [string, ExchangeCase] => [
      `${name} is replayed unchanged`,
      {
        ...(sample.needs && { needs: sample.needs }),
        why: "A retry that gets another answer looks like a second order.",
        async check(stage) {
          const asked = { method: sample.method ?? "POST" };
          const app = await stage.app(sample.answer, sample.options && { options: sample.options });
          const first = await app.ask(asked);
          expectReplay(await app.ask(asked), first);
          expectReplay(await app.ask(asked), first);
          expect("how often the handler ran", app.runs(), 1);
        },
      },
    ]),
  ),
  "a replay has its own Date": {
    why: "With an old Date, caches and clients take the answer for stale.",
    async check(stage) {
      const app = await stage.app(() => answer(200, json({}), [["Date", LONG_AGO]]));
      expect("Date of the first answer", headerValues(await app.ask(), "date"), [LONG_AGO]);
      const [date, ...more] = headerValues(await app.ask(), "date");
      expect("the number of further Date lines of the replay", more.length, 0);
      expect("whether the replay's date is the first answer's", date === LONG_AGO, false);
    },
  },
  "a replay has the headers in replayHeaders, with all their values": {
    why: "Headers that an application needs its clients to see must survive a retry.",
    async check(stage) {
      const app = await stage.app(
        () =>
          answer(200, json({}), [
            ["X-Step", "one"],
            ["X-Step", "two, three"],
            ["Cache-Control", "private, max-age=5"],
          ]),
        { options: { replayHeaders: ["X-Step", "Cache-Control"] } },
      );
      const first = await app.ask();
      const again = await app.ask();
      expect("X-Step of the replay", headerValues(again, "x-step"), headerValues(first, "x-step"));
      expect("Cache-Control of the replay", headerValues(again, "cache-control"), ["private, max-age=5"]);
    },
  },
  "a replay has headers that are called like members of every object": {
    why: "An adapter that collects headers in a plain object finds a value for such a name, and loses the header or fails.",
    async check(stage) {
      const names = ["constructor", "valueof"];
      const app = await stage.app(
        () =>
          answer(
            200,
            json({}),
            names.map((name) => [name, `own ${name}`]),
          ),
        { options: { replayHeaders: names } },
      );
      const first = await app.ask();
      const again = await app.ask();
      for (const name of names)
        expect(`${name} of the replay`, headerValues(again, name), headerValues(first, name));
      expect("constructor of the replay", headerValues(again, "constructor"), ["own constructor"]);
    },
  },
  "a replay repeats no header line": {
    why: "Clients reject answers in which such a header, or the length, occurs twice.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      await app.ask();
      const again = await app.ask();
      for (const name of ["content-type", "content-length", "date", "cache-control"]) {
        expect(`whether ${name} has one line at most`, headerValues(again, name).length <= 1, true);
      }
    },
  },
  "several replays share one connection": {
    needs: ["connections"],
    why: "If too many or too few bytes are sent on a connection, the next response starts in the wrong place.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      const first = await app.ask({ keeps: true });
      for (let i = 0; i < 3; i++) expectReplay(await app.ask({ keeps: true }), first);
      const other = await app.ask({ keeps: true, key: "another" });
      expect("the status of another request on that connection", other.status, 201);
      expect("how often the handler ran", app.runs(), 2);
    },
  },
  "a replay that does not read the request's body leaves the connection usable": {
    needs: ["connections"],
    why: "An unread body would be parsed as the next request.",
    async check(stage) {
      const app = await stage.app(countingRuns, { options: { fingerprint: "none" } });
      const first = await app.ask({ keeps: true, body: "x".repeat(200_000), type: "text/plain" });
      const again = await app.ask({ keeps: true, body: "x".repeat(200_000), type: "text/plain" });
      expectReplay(again, first);
      expect("the status of the next request", (await app.ask({ keeps: true, key: "another" })).status, 201);
    },
  },
};
