/** What a retry gets is what the first client got: the same status, the same bytes, and a sign that it is a replay. */
import { expect } from "../cases/expect.ts";
import { expectReplay, valuesOf } from "./answers.ts";
import { SAMPLES } from "./samples.ts";
import { answer, countingRuns, json } from "./script.ts";
import type { Case, Cases } from "./stage.ts";

const LONG_AGO = "Thu, 15 Nov 1990 10:00:00 GMT";

export const replays: Cases = {
  ...Object.fromEntries(
    Object.entries(SAMPLES).map(([name, sample]): [string, Case] => [
      `${name} comes back as it was`,
      {
        ...(sample.needs && { needs: sample.needs }),
        why: "A retry that gets something else than the first answer cannot be told from a second order.",
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
  "a replay has the date of its own moment": {
    why: "A date from the past makes caches and clients believe that the answer is old.",
    async check(stage) {
      const app = await stage.app(() => answer(200, json({}), [["Date", LONG_AGO]]));
      expect("Date of the first answer", valuesOf(await app.ask(), "date"), [LONG_AGO]);
      const [date, ...more] = valuesOf(await app.ask(), "date");
      expect("the number of further Date lines of the replay", more.length, 0);
      expect("whether the replay's date is the first answer's", date === LONG_AGO, false);
    },
  },
  "a replay keeps the headers that were chosen, with all their values": {
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
      expect("X-Step of the replay", valuesOf(again, "x-step"), valuesOf(first, "x-step"));
      expect("Cache-Control of the replay", valuesOf(again, "cache-control"), ["private, max-age=5"]);
    },
  },
  "a replay has what the application sets on every answer, and once": {
    why: "An application's own header that comes twice, or a length that does, is an answer that clients refuse.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      await app.ask();
      const again = await app.ask();
      for (const name of ["content-type", "content-length", "date", "cache-control"]) {
        expect(`whether ${name} has one line at most`, valuesOf(again, name).length <= 1, true);
      }
    },
  },
  "replays on one connection follow each other": {
    needs: ["connections"],
    why: "A connection on which too much or too little was sent gives the next request somebody else's bytes.",
    async check(stage) {
      const app = await stage.app(countingRuns);
      const first = await app.ask({ keeps: true });
      for (let i = 0; i < 3; i++) expectReplay(await app.ask({ keeps: true }), first);
      const other = await app.ask({ keeps: true, key: "another" });
      expect("the status of another request on that connection", other.status, 201);
      expect("how often the handler ran", app.runs(), 2);
    },
  },
  "a replay that did not need the request's body leaves the connection fit for the next": {
    needs: ["connections"],
    why: "A body that nobody read is read as the next request.",
    async check(stage) {
      const app = await stage.app(countingRuns, { options: { fingerprint: "none" } });
      const first = await app.ask({ keeps: true, body: "x".repeat(200_000), type: "text/plain" });
      const again = await app.ask({ keeps: true, body: "x".repeat(200_000), type: "text/plain" });
      expectReplay(again, first);
      expect("the status of the next request", (await app.ask({ keeps: true, key: "another" })).status, 201);
    },
  },
};
