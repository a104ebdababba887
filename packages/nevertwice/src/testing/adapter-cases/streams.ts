/** Answers that are streamed, or too long to keep: they flow as ever, and a retry is told that they were given. */
import { createHash } from "node:crypto";
import { expect } from "../cases/expect.ts";
import { sleep } from "../cases/trial.ts";
import { expectMarker, expectReplay, expectSame, textOf, valuesOf } from "./answers.ts";
import type { Need, ScriptedBody } from "./harness.ts";
import { completingAt } from "./interposed.ts";
import { CAP_BYTES } from "./samples.ts";
import { answer, bytes, noise, producer, stream, text, type, utf8, written } from "./script.ts";
import { type Case, type Cases, expectNotYet, type Gate } from "./stage.ts";

const CAPPED = { options: { maxOutcomeBytes: CAP_BYTES } };
const OVER_CAP = noise(CAP_BYTES * 3 + 1);
const why =
  "What is too long to keep was done all the same: the first client needs it, and nobody may do it again.";

/** The ways in which a long body is sent. */
const MANNERS: Readonly<Record<string, { needs: readonly Need[]; body(): ScriptedBody }>> = {
  "sent whole": { needs: [], body: () => bytes(OVER_CAP) },
  "written in pieces": { needs: ["written"], body: () => written(pieces(OVER_CAP)) },
  "sent as a stream": { needs: ["stream"], body: () => stream(pieces(OVER_CAP)) },
};

function pieces(content: Uint8Array): Uint8Array[] {
  return [content.subarray(0, 10_000), content.subarray(10_000, 90_000), content.subarray(90_000)];
}

const EVENTS = [type("text/event-stream"), ["Cache-Control", "no-cache"]] as const;

/** An event at once, and another when the gate opens. */
async function* events(gate: Gate): AsyncGenerator<Uint8Array> {
  yield utf8("data: 1\n\n");
  await gate.opened;
  yield utf8("data: 2\n\n");
}

/** First comes what was sent first, while the handler still runs; and a retry does not wait for the rest. */
function arrivesAtOnce(needs: readonly Need[], body: (gate: Gate) => ScriptedBody): Case {
  return {
    needs: ["arrival", ...needs],
    why: "A stream that is held back until it ends is no stream, and one that runs for a retry again runs twice.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(() => answer(200, body(gate), EVENTS));
      const visit = app.visit();
      expect(
        "the first event, while the handler still runs",
        textOf((await visit.next()) as Uint8Array),
        "data: 1\n\n",
      );
      expectMarker(await app.ask(), await visit.head);
      gate.open();
      expect("the rest", textOf((await visit.rest()).body), "data: 2\n\n");
      expectMarker(await app.ask(), await visit.head);
      expect("how often the handler ran", app.runs(), 1);
    },
  };
}

const STREAM_BYTES = 50 * 1_048_576;
const HELD_BYTES = 8 * 1_048_576;

export const streams: Cases = {
  ...Object.fromEntries(
    Object.entries(MANNERS).map(([manner, { needs, body }]): [string, Case] => [
      `an answer above the cap, ${manner}, arrives whole and comes back as its head alone`,
      {
        needs,
        why,
        async check(stage) {
          const script = () =>
            answer(200, body(), [
              type("application/octet-stream"),
              ["Content-Language", "de"],
              ["Set-Cookie", "a=1"],
              ["Link", '</a>; rel="self"'],
              ["Link", '</b>; rel="next"'],
            ]);
          const bare = await (await stage.bare(script)).ask();
          const app = await stage.app(script, CAPPED);
          const first = await app.ask();
          expectSame(first, bare);
          const again = await app.ask();
          expectMarker(again, first);
          expect("Link of the replay", valuesOf(again, "link"), valuesOf(first, "link"));
          expect("Content-Language of the replay", valuesOf(again, "content-language"), ["de"]);
          expect("how often the handler ran", app.runs(), 1);
        },
      },
    ]),
  ),
  "an answer of exactly the cap arrives whole and comes back as its head alone": {
    why,
    async check(stage) {
      const script = () => answer(200, text("a".repeat(CAP_BYTES)), [type("text/plain; charset=utf-8")]);
      const bare = await (await stage.bare(script)).ask();
      const app = await stage.app(script, CAPPED);
      const first = await app.ask();
      expectSame(first, bare);
      expectMarker(await app.ask(), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "the head of a compressed answer above the cap says nothing of a body that is not there": {
    why: "A client that is told of gzip and given nothing fails to unpack it.",
    async check(stage) {
      const headers = [type("application/octet-stream"), ["Content-Encoding", "gzip"]] as const;
      const app = await stage.app(() => answer(200, bytes(OVER_CAP), headers), CAPPED);
      expect("Content-Encoding of the first answer", valuesOf(await app.ask(), "content-encoding"), ["gzip"]);
      const again = await app.ask();
      expectMarker(again, answer(200, undefined, headers));
      expect("Content-Encoding of the replay", valuesOf(again, "content-encoding"), []);
    },
  },
  "a reader that stalls stops the producer of a long stream": {
    needs: ["stream", "arrival"],
    why: "A server that reads fifty megabytes ahead of every slow client runs out of memory.",
    async check(stage) {
      const source = producer(STREAM_BYTES);
      const app = await stage.app(() =>
        answer(200, stream(source.chunks), [type("application/octet-stream")]),
      );
      const visit = app.visit();
      const digest = createHash("sha256").update((await visit.next()) as Uint8Array);
      await standsStill(source.produced);
      expect("whether the producer stopped in the first half", source.produced() < STREAM_BYTES / 2, true);
      for (let chunk = await visit.next(); chunk !== undefined; chunk = await visit.next())
        digest.update(chunk);
      const sent = createHash("sha256");
      for await (const chunk of producer(STREAM_BYTES).chunks) sent.update(chunk);
      expect("the digest of what arrived", digest.digest("hex"), sent.digest("hex"));
    },
  },
  "while an answer is held back its producer is not read on": {
    needs: ["stream", "arrival"],
    why: "A store that is slow must not fill the memory with what waits for it.",
    async check(stage) {
      const gate = stage.gate();
      const { given, asked } = completingAt(gate);
      const source = producer(HELD_BYTES);
      const app = await stage.app(
        () => answer(200, stream(source.chunks), [type("application/octet-stream")]),
        {
          ...given,
          options: { ...given.options, maxOutcomeBytes: CAP_BYTES },
        },
      );
      const visit = app.visit();
      await stage.until(() => asked() > 0);
      await expectNotYet("whether anything has arrived before the store completed", visit.head);
      expect(
        "whether the producer stopped soon above the cap",
        source.produced() < CAP_BYTES + 1_048_576,
        true,
      );
      gate.open();
      let length = 0;
      for (let chunk = await visit.next(); chunk !== undefined; chunk = await visit.next())
        length += chunk.length;
      expect("how many bytes arrived", length, HELD_BYTES);
    },
  },
  "an event stream that is written arrives as it is written": arrivesAtOnce(["written"], (gate) =>
    written(events(gate)),
  ),
  "an event stream of the framework's own arrives as it is made": arrivesAtOnce(["stream"], (gate) =>
    stream(events(gate)),
  ),
  "a head that the handler flushes arrives before its body": {
    needs: ["arrival", "written", "flush"],
    why: "A handler that flushes its head means its client to have it now.",
    async check(stage) {
      const gate = stage.gate();
      const late = async function* (): AsyncGenerator<Uint8Array> {
        await gate.opened;
        yield utf8("late");
      };
      const script = () => answer(202, written(late(), true), [type("text/plain"), ["Location", "/jobs/1"]]);
      const app = await stage.app(script);
      const visit = app.visit();
      const head = await visit.head;
      expect("the status, while the handler still runs", head.status, 202);
      expectMarker(await app.ask(), head);
      gate.open();
      expect("the rest", textOf((await visit.rest()).body), "late");
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a stream that breaks while it is held back leaves no key stuck": {
    needs: ["stream"],
    why: "A key that nobody settles answers 409 to every retry until it is forgotten.",
    async check(stage) {
      const breaking = async function* (): AsyncGenerator<Uint8Array> {
        yield utf8("half of ");
        throw new Error("the source broke");
      };
      const app = await stage.app(({ number }) =>
        answer(200, number === 1 ? stream(breaking()) : text("all of it"), [type("text/plain")]),
      );
      await Promise.allSettled([app.ask()]);
      const again = await app.settle();
      const isHalf = again.status === 200 && textOf(again.body) === "half of ";
      expect("whether half a body is replayed as if it were whole", isHalf, false);
    },
  },
  "a stream that breaks above the cap is cut off, and not carried out again": {
    needs: ["stream", "arrival"],
    why: "The client has had a part of it: what the handler did, it did.",
    async check(stage) {
      const gate = stage.gate();
      const breaking = async function* (): AsyncGenerator<Uint8Array> {
        yield OVER_CAP;
        await gate.opened;
        throw new Error("the source broke");
      };
      const script = () => answer(200, stream(breaking()), [type("application/octet-stream")]);
      const app = await stage.app(script, CAPPED);
      const visit = app.visit();
      await visit.next();
      gate.open();
      const [first] = await Promise.allSettled([visit.rest()]);
      expect("whether the first client takes half a body for a whole one", first.status, "rejected");
      expectMarker(await app.settle(), { status: 200, headers: [type("application/octet-stream")] });
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a streamed answer to a request without a key flows untouched": {
    needs: ["stream", "arrival"],
    why: "Whoever sends no key must not notice the layer.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(() => answer(200, stream(events(gate)), [type("text/plain")]));
      const visit = app.visit({ key: [] });
      expect(
        "the first bytes, while the handler still runs",
        textOf((await visit.next()) as Uint8Array),
        "data: 1\n\n",
      );
      gate.open();
      expect("the rest", textOf((await visit.rest()).body), "data: 2\n\n");
    },
  },
  "a stream that is held whole is replayed whole": {
    needs: ["stream", "arrival"],
    why: "A short stream is an answer like any other.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(() => answer(200, stream(events(gate)), [type("text/plain")]));
      const visit = app.visit();
      await stage.until(() => app.runs() === 1);
      await expectNotYet("whether half of a short stream has arrived", visit.head);
      gate.open();
      const first = await visit.rest();
      expectReplay(await app.ask(), first);
    },
  },
};

const STILL_MS = 60;

/** Waits until the number has not grown for a while. */
async function standsStill(count: () => number): Promise<void> {
  for (let before = -1; before !== count(); ) {
    before = count();
    await sleep(STILL_MS);
  }
}
