/** Clients that disconnect at every stage: work that was begun is finished and kept, and a retry does not run it again. */
import { expect } from "../cases/expect.ts";
import { sleep } from "../cases/trial.ts";
import type { Need, ScriptedBody } from "./harness.ts";
import { completingAt } from "./interposed-stores.ts";
import { expectMarker, expectProblem, expectReplay, problemCode, toText } from "./response-checks.ts";
import { CAP_BYTES } from "./samples.ts";
import {
  answer,
  countingRuns,
  type HandlerScript,
  noise,
  producer,
  stream,
  text,
  type,
  utf8,
  written,
} from "./script.ts";
import type { CaseGate, ExchangeCase, ExchangeCases, RequestOverrides } from "./stage.ts";

/** Long enough for half a body to arrive, and for an unwanted effect to show. */
const ARRIVAL_MS = 25;

/** The first part of a body, without the rest. */
function half(gate: CaseGate): AsyncIterable<Uint8Array> {
  return (async function* () {
    yield utf8('{"amo');
    await gate.opened;
  })();
}

function disconnectsDuringBody(headers: NonNullable<RequestOverrides["headers"]>): ExchangeCase {
  return {
    needs: ["disconnects", "uploads"],
    why: "A key that is claimed for half a request is blocked until its lease ends; or worse, half a request runs.",
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
      expect("the answer to the whole request", toText(first.body), '{"run":1}');
      expectReplay(await app.ask(), first);
    },
  };
}

/** How the handler answers after its client has disconnected. */
const MANNERS: Readonly<Record<string, { needs: readonly Need[]; body(): ScriptedBody }>> = {
  "sends its answer": { needs: [], body: () => text("done twice?") },
  "writes its answer": { needs: ["written"], body: () => written([utf8("done "), utf8("twice?")]) },
  "streams its answer": { needs: ["stream"], body: () => stream([utf8("done "), utf8("twice?")]) },
};

const FIRST = { status: 200, headers: [type("application/octet-stream")] };

export const disconnects: ExchangeCases = {
  "a client that disconnects during a chunked body has claimed nothing": disconnectsDuringBody([]),
  "a client that disconnects before its Content-Length is reached has claimed nothing": disconnectsDuringBody(
    [["Content-Length", "12"]],
  ),
  ...Object.fromEntries(
    Object.entries(MANNERS).map(([manner, { needs, body }]): [string, ExchangeCase] => [
      `a client disconnects while the handler runs, which then ${manner}: the retry gets it`,
      {
        needs: ["disconnects", ...needs],
        why: "Keys exist for clients that give up and try again.",
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
  "a client disconnects while its answer is held back: the retry gets it": {
    needs: ["disconnects"],
    why: "The work is done and is being recorded; a disconnect changes neither.",
    async check(stage) {
      const gate = stage.gate();
      const store = completingAt(gate);
      const app = await stage.app(countingRuns, store.given);
      const visit = app.visit();
      await stage.until(() => store.asked() > 0);
      await visit.leave();
      expectProblem(await app.ask(), 409, "pending");
      gate.open();
      expect("the answer to the retry", toText((await app.settle()).body), '{"run":1}');
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a client disconnects in the middle of a stream: the retry gets its status and headers": {
    needs: ["disconnects", "stream", "arrival"],
    why: "If the sending of an answer has begun, its work is done and must not run again.",
    async check(stage) {
      const source = producer(20_000_000);
      const script = () => answer(200, stream(source.chunks), FIRST.headers);
      const app = await stage.app(script, { options: { maxOutcomeBytes: CAP_BYTES, onNotKept: "status" } });
      const visit = app.visit();
      await visit.next();
      await visit.leave();
      expectMarker(await app.settle(), FIRST);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a client disconnects in the middle of a written body: the retry gets its status and headers": {
    needs: ["disconnects", "written", "arrival"],
    why: "If the sending of an answer has begun, its work is done and must not run again.",
    async check(stage) {
      const gate = stage.gate();
      const pieces = async function* (): AsyncGenerator<Uint8Array> {
        yield noise(CAP_BYTES * 2);
        await gate.opened;
        yield noise(10);
      };
      const script = () => answer(200, written(pieces()), FIRST.headers);
      const app = await stage.app(script, { options: { maxOutcomeBytes: CAP_BYTES, onNotKept: "status" } });
      const visit = app.visit();
      await visit.next();
      await visit.leave();
      gate.open();
      expectMarker(await app.settle(), FIRST);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a client disconnects and the handler then fails: the outcome is unknown": {
    needs: ["disconnects", "thrown"],
    why: "The handler may have failed because its client disconnected, after the charge was made.",
    async check(stage) {
      const gate = stage.gate();
      const script: HandlerScript = async () => {
        await gate.opened;
        throw new Error("the socket is closed");
      };
      const app = await stage.app(script, { options: { onLapsed: "hold" } });
      const visit = app.visit();
      await stage.until(() => app.runs() === 1);
      await visit.leave();
      gate.open();
      expect("the code of the answer to the retry", problemCode(await app.settle()), "unknown");
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a duplicate that disconnects while it waits does not affect the first request": {
    needs: ["disconnects"],
    why: "A waiting duplicate has no claim, and must not release the claim of another request.",
    async check(stage) {
      const gate = stage.gate();
      const script: HandlerScript = async () => {
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
  "clients that disconnect one after another cause one run": {
    needs: ["disconnects"],
    why: "Impatient clients retry again and again.",
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
      expect("the answer in the end", toText((await app.settle()).body), "done");
      expect("how often the handler ran", app.runs(), 1);
    },
  },
};
