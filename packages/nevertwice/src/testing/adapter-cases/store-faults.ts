/** Stores that fail: before the work nothing is done, after it nobody is kept waiting, and nothing is done twice. */
import { expect } from "../cases/expect.ts";
import type { Fault } from "../faulty-store.ts";
import { expectProblem, expectReplay, expectRetryAfter, textOf, valuesOf } from "./answers.ts";
import type { Need, ScriptedBody } from "./harness.ts";
import { overtaking } from "./interposed.ts";
import { answer, countingRuns, json, type Script, stream, type, utf8 } from "./script.ts";
import type { Case, Cases, Given, Stage } from "./stage.ts";

/** Faults are met at once, so that the cases are quick. */
const HASTY: Given = { options: { storeTimeoutMs: 60, completeWaitMs: 60 } };

function downBefore(fault: Fault): Case {
  return {
    why: "Work that is begun while nobody can say whether it was done before may be done twice.",
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

function downAfter(fault: Fault): Case {
  return {
    why: "The work is done: its client is owed the answer, and whoever asks again must not start it once more.",
    async check(stage) {
      const app = await stage.app(countingRuns, HASTY);
      app.store.plan("complete", fault);
      const first = await app.ask();
      expect("the answer", textOf(first.body), '{"run":1}');
      expect("Idempotent-Replayed of the first answer", valuesOf(first, "idempotent-replayed"), []);
      const isTold = app.events.some((each) => each.kind === "unavailable" && each.during === "complete");
      expect("whether the observer was told", isTold, true);
      expectReplay(await app.settle(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  };
}

/** The first request loses its key to the second, which is still running, or done, when the first one ends. */
async function overtaken(stage: Stage, body: (run: number) => ScriptedBody, isDone: boolean): Promise<void> {
  const gates = [stage.gate(), stage.gate()] as const;
  const script: Script = async ({ number }) => {
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
    expect("the answer of the second", textOf((await second.rest()).body), "run 2");
  }
  expectReplay(await app.ask(), { ...(await second.head), body: utf8("run 2"), trailers: [] });
  expect("how often the handler ran", app.runs(), 2);
}

const BODIES: Readonly<Record<string, { needs: readonly Need[]; body(run: number): ScriptedBody }>> = {
  "an answer": { needs: [], body: (run) => ({ kind: "text", text: `run ${run}` }) },
  "an answer from a stream": { needs: ["stream"], body: (run) => stream([utf8("run "), utf8(String(run))]) },
};

export const storeFaults: Cases = {
  "a store that refuses before the work means 503, and nothing is done": downBefore("refuse"),
  "a store that hangs before the work means 503, and nothing is done": downBefore("hang"),
  "a store that refuses after the work delays nobody, and nothing is done again": downAfter("refuse"),
  "a store that hangs after the work delays nobody for long, and nothing is done again": downAfter("hang"),
  "a store whose reply is lost after the work has the answer all the same": downAfter("lose-reply"),
  ...Object.fromEntries(
    Object.entries(BODIES).flatMap(([name, { needs, body }]): [string, Case][] => [
      [
        `${name} that was overtaken by a running attempt is not given, and its cookies neither`,
        {
          needs,
          why: "Two different answers to one request, and nobody knows which one counts.",
          check: (stage) => overtaken(stage, body, false),
        },
      ],
      [
        `${name} that was overtaken by an attempt that is done gives way to that one's answer`,
        {
          needs,
          why: "Two different answers to one request, and nobody knows which one counts.",
          check: (stage) => overtaken(stage, body, true),
        },
      ],
    ]),
  ),
  "a streamed answer whose completion is not answered flows all the same": {
    needs: ["stream"],
    why: "A store that hangs must not keep a stream from its client.",
    async check(stage) {
      const script = () => answer(200, stream([utf8("data: 1\n\n")]), [type("text/event-stream")]);
      const app = await stage.app(script, HASTY);
      app.store.plan("complete", "hang");
      expect("what arrived", textOf((await app.ask()).body), "data: 1\n\n");
      await app.settle();
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a failure whose release is not answered is answered for all the same": {
    why: "A store that hangs must not keep the failure from its client.",
    async check(stage) {
      const script: Script = ({ number }) =>
        number === 1 ? answer(500, json({ failed: true })) : answer(201, json({ run: number }));
      const app = await stage.app(script, HASTY);
      app.store.plan("abandon", "hang");
      expect("the status", (await app.ask()).status, 500);
      expect("the status of the retry", (await app.settle()).status, 201);
    },
  },
  "an application that would rather go on without a store does": {
    why: "Some would rather risk a duplicate than refuse an order.",
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
