/**
 * Answers that are streamed or too long to keep: they are sent as usual, and a retry is refused, or gets their status and
 * headers.
 */
import { createHash } from "node:crypto";
import { expect } from "../cases/expect.ts";
import { sleep } from "../cases/trial.ts";
import type { Need, ScriptedBody } from "./harness.ts";
import { completingAt } from "./interposed-stores.ts";
import {
  expectMarker,
  expectReplay,
  expectSame,
  expectToldUnkept,
  expectUnkept,
  headerValues,
  toText,
} from "./response-checks.ts";
import { CAP_BYTES } from "./samples.ts";
import { answer, bytes, noise, producer, stream, text, type, utf8, written } from "./script.ts";
import { type CaseGate, type ExchangeCase, type ExchangeCases, expectNotYet } from "./stage.ts";

const CAPPED = { options: { maxOutcomeBytes: CAP_BYTES, onNotKept: "status" } } as const;
const OVER_CAP = noise(CAP_BYTES * 3 + 1);
const why =
  "Work whose answer is too long to keep is done all the same: the first client needs the answer, and the work must not run again.";

/** The ways to send a long body. */
const MANNERS: Readonly<Record<string, { needs: readonly Need[]; body(): ScriptedBody }>> = {
  "sent whole": { needs: [], body: () => bytes(OVER_CAP) },
  "written in pieces": { needs: ["written"], body: () => written(pieces(OVER_CAP)) },
  "sent as a stream": { needs: ["stream"], body: () => stream(pieces(OVER_CAP)) },
};

function pieces(content: Uint8Array): Uint8Array[] {
  return [content.subarray(0, 10_000), content.subarray(10_000, 90_000), content.subarray(90_000)];
}

const EVENTS = [type("text/event-stream"), ["Cache-Control", "no-cache"]] as const;

/** One event at once, and another when the gate opens. */
async function* events(gate: CaseGate): AsyncGenerator<Uint8Array> {
  yield utf8("data: 1\n\n");
  await gate.opened;
  yield utf8("data: 2\n\n");
}

/** The first event arrives while the handler still runs, and a retry does not wait for the rest. */
function arrivesAtOnce(needs: readonly Need[], body: (gate: CaseGate) => ScriptedBody): ExchangeCase {
  return {
    needs: ["arrival", ...needs],
    why: "A stream must not be held back until its end, and a retry must not run it again.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(() => answer(200, body(gate), EVENTS));
      const visit = app.visit();
      expect(
        "the first event, while the handler still runs",
        toText((await visit.next()) as Uint8Array),
        "data: 1\n\n",
      );
      expectToldUnkept(await visit.head);
      expectUnkept(await app.ask());
      gate.open();
      expect("the rest", toText((await visit.rest()).body), "data: 2\n\n");
      expectUnkept(await app.ask());
      expect("how often the handler ran", app.runs(), 1);
    },
  };
}

const STREAM_BYTES = 50 * 1_048_576;
const HELD_BYTES = 8 * 1_048_576;

export const streams: ExchangeCases = {
  ...Object.fromEntries(
    Object.entries(MANNERS).map(([manner, { needs, body }]): [string, ExchangeCase] => [
      `an answer above the cap, ${manner}, arrives whole and is replayed without its body`,
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
          expectToldUnkept(first);
          const again = await app.ask();
          expectMarker(again, first);
          expect("Link of the replay", headerValues(again, "link"), headerValues(first, "link"));
          expect("Content-Language of the replay", headerValues(again, "content-language"), ["de"]);
          expect("how often the handler ran", app.runs(), 1);
        },
      },
    ]),
  ),
  "an answer whose body has exactly the cap is replayed whole, and one of a byte more without its body": {
    why: "The cap counts the body, whatever its encoding and its headers take where it is stored.",
    async check(stage) {
      for (const size of [CAP_BYTES, CAP_BYTES + 1]) {
        const script = () => answer(200, bytes(noise(size)), [type("application/octet-stream")]);
        const bare = await (await stage.bare(script)).ask();
        const app = await stage.app(script, CAPPED);
        const first = await app.ask();
        expectSame(first, bare);
        const again = await app.ask();
        if (size === CAP_BYTES) expectReplay(again, first);
        else {
          expectToldUnkept(first);
          expectMarker(again, first);
        }
        expect("how often the handler ran", app.runs(), 1);
      }
    },
  },
  "a replay without its body has no Content-Encoding": {
    why: "A client cannot unpack an empty body that is labelled as gzip.",
    async check(stage) {
      const headers = [type("application/octet-stream"), ["Content-Encoding", "gzip"]] as const;
      const app = await stage.app(() => answer(200, bytes(OVER_CAP), headers), CAPPED);
      expect("Content-Encoding of the first answer", headerValues(await app.ask(), "content-encoding"), [
        "gzip",
      ]);
      const again = await app.ask();
      expectMarker(again, answer(200, undefined, headers));
      expect("Content-Encoding of the replay", headerValues(again, "content-encoding"), []);
    },
  },
  "a client that stops reading stops the producer of a long stream": {
    needs: ["stream", "arrival"],
    why: "A server that reads fifty megabytes ahead of every slow client runs out of memory.",
    async check(stage) {
      const source = producer(STREAM_BYTES);
      const app = await stage.app(() =>
        answer(200, stream(source.chunks), [type("application/octet-stream")]),
      );
      const visit = app.visit();
      const digest = createHash("sha256").update((await visit.next()) as Uint8Array);
      await untilStable(source.produced);
      expect("whether the producer stopped in the first half", source.produced() < STREAM_BYTES / 2, true);
      for (let chunk = await visit.next(); chunk !== undefined; chunk = await visit.next())
        digest.update(chunk);
      const sent = createHash("sha256");
      for await (const chunk of producer(STREAM_BYTES).chunks) sent.update(chunk);
      expect("the digest of what arrived", digest.digest("hex"), sent.digest("hex"));
    },
  },
  "while an answer is held back, its producer is paused": {
    needs: ["stream", "arrival"],
    why: "A slow store must not fill the memory with answers that wait for it.",
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
  "a written event stream arrives while it is written": arrivesAtOnce(["written"], (gate) =>
    written(events(gate)),
  ),
  "an event stream of the framework arrives while it is produced": arrivesAtOnce(["stream"], (gate) =>
    stream(events(gate)),
  ),
  "a head that the handler flushes arrives before its body": {
    needs: ["arrival", "written", "flush"],
    why: "A handler flushes its head so that the client gets it at once.",
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
      expectToldUnkept(head);
      expectUnkept(await app.ask());
      gate.open();
      expect("the rest", toText((await visit.rest()).body), "late");
      expect("how often the handler ran", app.runs(), 1);
    },
  },
  "a stream that fails while it is held back does not block its key": {
    needs: ["stream"],
    why: "Until the lease of an unsettled key ends, every retry gets 409.",
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
      const isHalf = again.status === 200 && toText(again.body) === "half of ";
      expect("whether half a body is replayed as if it were whole", isHalf, false);
    },
  },
  "a stream that fails above the cap is aborted, and the handler does not run again": {
    needs: ["stream", "arrival"],
    why: "The client has received a part of the answer, so the work counts as done.",
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
  "a streamed answer to a request without a key is not changed": {
    needs: ["stream", "arrival"],
    why: "A client that sends no key must not notice the layer.",
    async check(stage) {
      const gate = stage.gate();
      const app = await stage.app(() => answer(200, stream(events(gate)), [type("text/plain")]));
      const visit = app.visit({ key: [] });
      expect(
        "the first bytes, while the handler still runs",
        toText((await visit.next()) as Uint8Array),
        "data: 1\n\n",
      );
      gate.open();
      expect("the rest", toText((await visit.rest()).body), "data: 2\n\n");
    },
  },
  "a short stream is held back and replayed whole": {
    needs: ["stream", "arrival"],
    why: "A short stream is handled like any other answer.",
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

/** Waits until the number has not changed for `STILL_MS`. */
async function untilStable(count: () => number): Promise<void> {
  for (let before = -1; before !== count(); ) {
    before = count();
    await sleep(STILL_MS);
  }
}
