/** Stores that fail: before the work, nothing is done; after it, the answer is not delayed, and nothing is done twice. */
import { expect } from "../cases/expect.ts";
import type { StoreFault } from "../faulty-store.ts";
import type { Need, ScriptedBody } from "./harness.ts";
import { overtaking } from "./interposed-stores.ts";
import { expectProblem, expectReplay, expectRetryAfter, expectUnmarked, toText } from "./response-checks.ts";
import { answer, countingRuns, type HandlerScript, json, stream, type, utf8 } from "./script.ts";
import type { AppSetup, CaseStage, ExchangeCase, ExchangeCases } from "./stage.ts";

/** Short timeouts, so that the cases are fast. */
const HASTY: AppSetup = { options: { storeTimeoutMs: 60, completeWaitMs: 60 } };

function downBefore(fault: StoreFault): ExchangeCase {
  return {
    why: "Work that starts while its state is unknown may be done twice.",
    async check(stage) {
      const app = await stage.app(countingRuns, HASTY);
      app.store.setRates({ [fault]: 1 });
      const found = await app.ask();
      expectProblem(found, 503, "unavailable");
      expectRetryAfter(found);
      expect("how often the handler ran", app.runs(), 0);
      app.store.setRates({});
      const first = await app.settle();
      expect("the status once the store is back", first.status, 201);
      expectReplay(await app.ask(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  };
}

function downAfter(fault: StoreFault): ExchangeCase {
  return {
    why: "The work is done: the client must get the answer, and a retry must not start the work again.",
    async check(stage) {
      const app = await stage.app(countingRuns, HASTY);
      app.store.plan("complete", fault);
      const first = await app.ask();
      expect("the answer", toText(first.body), '{"run":1}');
      expectUnmarked(first, "the first answer");
      const isTold = app.events.some((each) => each.kind === "unavailable" && each.during === "complete");
      expect("whether the observer was notified", isTold, true);
      expectReplay(await app.settle(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  };
}

/** The first request loses its key to the second one, which is running or completed when the first one ends. */
async function overtaken(
  stage: CaseStage,
  body: (run: number) => ScriptedBody,
  isDone: boolean,
): Promise<void> {
  const gates = [stage.gate(), stage.gate()] as const;
  const script: HandlerScript = async ({ number }) => {
    await gates[number - 1]?.opened;
    return answer(200, body(number), [type("text/plain"), ["Set-Cookie", `run=${number}`]]);
  };
  const store = overtaking();
  const app = await stage.app(script, store.given);
  const first = app.visit();
  await stage.until(() => app.runs() === 1);
  await store.loseFirst();
  const second = app.visit();
  await stage.until(() => app.runs() === 2);
  if (isDone) {
    gates[1].open();
    const won = await second.rest();
    gates[0].open();
    expectReplay(await first.rest(), won);
  } else {
    gates[0].open();
    expectProblem(await first.rest(), 500, "lease-lost");
    gates[1].open();
    expect("the answer of the second", toText((await second.rest()).body), "run 2");
  }
  expectReplay(await app.ask(), { ...(await second.head), body: utf8("run 2"), trailers: [] });
  expect("how often the handler ran", app.runs(), 2);
}

const BODIES: Readonly<Record<string, { needs: readonly Need[]; body(run: number): ScriptedBody }>> = {
  "an answer": { needs: [], body: (run) => ({ kind: "text", text: `run ${run}` }) },
  "an answer from a stream": { needs: ["stream"], body: (run) => stream([utf8("run "), utf8(String(run))]) },
};

export const storeFaults: ExchangeCases = {
  "a store that fails before the work means 503, and nothing is done": downBefore("refuse"),
  "a store that hangs before the work means 503, and nothing is done": downBefore("hang"),
  "a store that fails after the work does not delay the answer, and nothing runs again": downAfter("refuse"),
  "a store that hangs after the work delays the answer only briefly, and nothing runs again":
    downAfter("hang"),
  "a store whose reply is lost after the work has kept the answer": downAfter("lose-reply"),
  ...Object.fromEntries(
    Object.entries(BODIES).flatMap(([name, { needs, body }]): [string, ExchangeCase][] => [
      [
        `${name} that was overtaken by a running attempt is not sent, nor are its cookies`,
        {
          needs,
          why: "One request must not get two different answers.",
          check: (stage) => overtaken(stage, body, false),
        },
      ],
      [
        `${name} that was overtaken by a completed attempt is replaced by that attempt's answer`,
        {
          needs,
          why: "One request must not get two different answers.",
          check: (stage) => overtaken(stage, body, true),
        },
      ],
    ]),
  ),
  "a streamed answer is sent although the store does not confirm its completion": {
    needs: ["stream"],
    why: "A hanging store must not withhold a stream from its client.",
    async check(stage) {
      const script = () => answer(200, stream([utf8("data: 1\n\n")]), [type("text/event-stream")]);
      const app = await stage.app(script, HASTY);
      app.store.plan("complete", "hang");
      expect("what arrived", toText((await app.ask()).body), "data: 1\n\n");
      await app.settle();
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a failure is sent although the store does not confirm the release": {
    why: "A hanging store must not withhold the failure from its client.",
    async check(stage) {
      const script: HandlerScript = ({ number }) =>
        number === 1 ? answer(500, json({ failed: true })) : answer(201, json({ run: number }));
      const app = await stage.app(script, HASTY);
      app.store.plan("abandon", "hang");
      expect("the status", (await app.ask()).status, 500);
      expect("the status of the retry", (await app.settle()).status, 201);
    },
  },
  'with onUnavailable "proceed" the handler runs without a store': {
    why: "Some applications prefer the risk of a duplicate to a refused order.",
    async check(stage) {
      const app = await stage.app(countingRuns, {
        options: { ...HASTY.options, onUnavailable: "proceed" },
      });
      app.store.setRates({ refuse: 1 });
      expect("the status", (await app.ask()).status, 201);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
};
