/** Clients that go away at every stage: what was begun is finished and kept, and nobody who comes back runs it again. */
import { expect } from "../cases/expect.ts";
import { sleep } from "../cases/trial.ts";
import { codeOf, expectMarker, expectProblem, expectReplay, textOf } from "./answers.ts";
import type { Need, ScriptedBody } from "./harness.ts";
import { completingAt } from "./interposed.ts";
import { CAP_BYTES } from "./samples.ts";
import {
  answer,
  countingRuns,
  noise,
  producer,
  type Script,
  stream,
  text,
  type,
  utf8,
  written,
} from "./script.ts";
import type { Asked, Case, Cases, Gate } from "./stage.ts";

/** Enough for half a body to arrive, and for what must not follow from it to follow. */
const ARRIVAL_MS = 25;

/** The first part of a body, and never the rest. */
function half(gate: Gate): AsyncIterable<Uint8Array> {
  return (async function* () {
    yield utf8('{"amo');
    await gate.opened;
  })();
}

function leavesBeforeItsBodyIsWhole(headers: NonNullable<Asked["headers"]>): Case {
  return {
    needs: ["disconnects", "uploads"],
    why: "A key that is claimed for half a request is stuck until its lease ends, or worse, half a request is run.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(countingRuns);
      const visit = app.visit({ body: half(gate), headers });
      await sleep(ARRIVAL_MS);
      await visit.leave();
      await sleep(ARRIVAL_MS);
      expect("how often the handler ran", app.runs(), 0);
      expect("how often the store was asked", app.store.calls.claim, 0);
      const first = await app.ask();
      expect("the answer to the whole request", textOf(first.body), '{"run":1}');
      expectReplay(await app.ask(), first);
    },
  };
}

/** How a handler answers whose client has gone meanwhile. */
const MANNERS: Readonly<Record<string, { needs: readonly Need[]; body(): ScriptedBody }>> = {
  "sends its answer": { needs: [], body: () => text("done twice?") },
  "writes its answer": { needs: ["written"], body: () => written([utf8("done "), utf8("twice?")]) },
  "streams its answer": { needs: ["stream"], body: () => stream([utf8("done "), utf8("twice?")]) },
};

const FIRST = { status: 200, headers: [type("application/octet-stream")] };

export const disconnects: Cases = {
  "a client that leaves before its body in chunks is whole has claimed nothing": leavesBeforeItsBodyIsWhole(
    [],
  ),
  "a client that leaves before its body is as long as it said has claimed nothing":
    leavesBeforeItsBodyIsWhole([["Content-Length", "12"]]),
  ...Object.fromEntries(
    Object.entries(MANNERS).map(([manner, { needs, body }]): [string, Case] => [
      `a client leaves while the handler runs, which then ${manner}: the retry waits and is given it`,
      {
        needs: ["disconnects", ...needs],
        why: "A client that gives up and tries again is the very case that keys are for.",
        async check(stage) {
          const gate = stage.gate();
          const app = await stage.app(async () => {
            await gate.opened;
            return answer(200, body(), FIRST.headers);
          });
          const visit = app.visit();
          await stage.until(() => app.runs() === 1);
          await visit.leave();
          expectProblem(await app.ask(), 409, "pending");
          gate.open();
          const again = await app.settle();
          expect("how often the handler ran", app.runs(), 1);
          expectReplay(again, await app.ask({ key: "another" }));
        },
      },
    ]),
  ),
  "a client leaves while its answer is held back: the retry is given it": {
    needs: ["disconnects"],
    why: "The work is done and the store is about to know: going away changes neither.",
    async check(stage) {
      const gate = stage.gate();
      const store = completingAt(gate);
      const app = await stage.app(countingRuns, store.given);
      const visit = app.visit();
      await stage.until(() => store.asked() > 0);
      await visit.leave();
      expectProblem(await app.ask(), 409, "pending");
      gate.open();
      expect("the answer to the retry", textOf((await app.settle()).body), '{"run":1}');
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a client leaves in the middle of a stream: the retry is told that it was given": {
    needs: ["disconnects", "stream", "arrival"],
    why: "What has begun to leave was done; half of it must not be done again.",
    async check(stage) {
      const source = producer(20_000_000);
      const script = () => answer(200, stream(source.chunks), FIRST.headers);
      const app = await stage.app(script, { options: { maxOutcomeBytes: CAP_BYTES } });
      const visit = app.visit();
      await visit.next();
      await visit.leave();
      expectMarker(await app.settle(), FIRST);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a client leaves in the middle of what is written: the retry is told that it was given": {
    needs: ["disconnects", "written", "arrival"],
    why: "What has begun to leave was done; half of it must not be done again.",
    async check(stage) {
      const gate = stage.gate();
      const pieces = async function* (): AsyncGenerator<Uint8Array> {
        yield noise(CAP_BYTES * 2);
        await gate.opened;
        yield noise(10);
      };
      const script = () => answer(200, written(pieces()), FIRST.headers);
      const app = await stage.app(script, { options: { maxOutcomeBytes: CAP_BYTES } });
      const visit = app.visit();
      await visit.next();
      await visit.leave();
      gate.open();
      expectMarker(await app.settle(), FIRST);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a client leaves and the handler then fails: nobody is told that nothing happened": {
    needs: ["disconnects", "thrown"],
    why: "The handler may have failed because its client went, after the charge was made.",
    async check(stage) {
      const gate = stage.gate();
      const script: Script = async () => {
        await gate.opened;
        throw new Error("the socket is closed");
      };
      const app = await stage.app(script, { options: { onLapsed: "hold" } });
      const visit = app.visit();
      await stage.until(() => app.runs() === 1);
      await visit.leave();
      gate.open();
      expect("the code of the answer to the retry", codeOf(await app.settle()), "unknown");
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a duplicate that leaves while it waits disturbs nobody": {
    needs: ["disconnects"],
    why: "Whoever waits has no claim, and must not give up another's.",
    async check(stage) {
      const gate = stage.gate();
      const script: Script = async () => {
        await gate.opened;
        return answer(200, text("done"), FIRST.headers);
      };
      const app = await stage.app(script, { options: { onPending: "wait", waitMs: 60_000 } });
      const visit = app.visit();
      await stage.until(() => app.runs() === 1);
      const waiter = app.visit();
      await stage.until(() => app.store.calls.claim > 1);
      await waiter.leave();
      gate.open();
      const first = await visit.rest();
      expectReplay(await app.ask(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "clients that leave one after another leave one run": {
    needs: ["disconnects"],
    why: "Impatient clients come back again and again.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(async () => {
        await gate.opened;
        return answer(200, text("done"), FIRST.headers);
      });
      for (let i = 0; i < 5; i++) {
        const visit = app.visit();
        await stage.until(() => app.runs() === 1);
        await visit.leave();
      }
      gate.open();
      expect("the answer in the end", textOf((await app.settle()).body), "done");
      expect("how often the handler ran", app.runs(), 1);
    },
  },
};
