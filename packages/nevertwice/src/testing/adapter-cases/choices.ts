/** Options that are functions of the request or the response: each gets the framework's own request, and what it returns counts. */
import { expect } from "../cases/expect.ts";
import {
  expectMarker,
  expectProblem,
  expectReplay,
  expectSame,
  expectUnmarked,
  headerValues,
  REPLAYED,
  toText,
} from "./response-checks.ts";
import { answer, countingRuns, json } from "./script.ts";
import type { ExchangeCase, ExchangeCases } from "./stage.ts";

const REQUEST_ID = "x-request-id";
const VERSION = "x-version";
const DRY = "x-dry-run";
const HOUR_MS = 3_600_000;

const withId = (id: string) => ({ headers: [[REQUEST_ID, id]] as const });
const withVersion = (version: string) => ({ headers: [[VERSION, version]] as const });

const CARD = { id: 1, pan: "4242" };

/** `redact` returns `stored` for the card, and the replay has `text`. */
function redacted(stored: unknown, text: string): ExchangeCase {
  return {
    why: "What must not be stored must not be in the store, and the first caller needs the whole answer.",
    async check(stage) {
      const script = () => answer(201, json(CARD), [["ETag", '"v1"']]);
      const bare = await stage.bare(script);
      const redact = (response: { header(name: string): string | undefined }, native: unknown) =>
        response.header("etag") === '"v1"' && stage.header(native, VERSION) === "1" ? stored : "not asked";
      const app = await stage.app(script, { options: { redact, onNotKept: "status" } });
      const first = await app.ask(withVersion("1"));
      if (text === "") expect("the body of the first answer", toText(first.body), JSON.stringify(CARD));
      else expectSame(first, await bare.ask());
      const found = await app.ask(withVersion("1"));
      if (text === "") return expectMarker(found, first);
      expect("the body of the replay", toText(found.body), text);
      expect("the replay marker", headerValues(found, REPLAYED), ["true"]);
      expect("the ETag of the replay, which is that of the sent body", headerValues(found, "etag"), []);
    },
  };
}

export const choices: ExchangeCases = {
  "a key that a function returns replaces the header": {
    why: "Webhooks and queues name their deliveries in headers of their own.",
    async check(stage) {
      const key = async (native: unknown) => stage.header(native, REQUEST_ID);
      const app = await stage.app(countingRuns, { options: { key } });
      const first = await app.ask({ ...withId("a b, c"), key: [] });
      expectReplay(await app.ask({ ...withId("a b, c"), key: "ignored" }), first);
      expectUnmarked(await app.ask({ ...withId("d"), key: "ignored" }), "the answer for another key");
      expectUnmarked(await app.ask(), "the answer without a key");
      expect("how often the handler ran", app.runs(), 3);
    },
  },
  "a required key that a function does not find is refused, and so is an empty one": {
    why: "An operation that must not happen twice must not be started without a key.",
    async check(stage) {
      const key = (native: unknown) => (stage.header(native, DRY) === undefined ? undefined : "");
      const app = await stage.app(countingRuns, { options: { key, required: true } });
      expectProblem(await app.ask(), 400, "key-missing");
      expectProblem(await app.ask({ headers: [[DRY, "1"]] }), 400, "key-invalid");
      expect("how often the handler ran", app.runs(), 0);
    },
  },
  "a request that skip names passes with a key, as by the bare application": {
    why: "A dry run has no effect, and must not use up the key of the run that follows.",
    async check(stage) {
      const skip = async (native: unknown) => stage.header(native, DRY) === "1";
      const script = () => answer(200, json({ ok: true }));
      const bare = await stage.bare(script);
      const app = await stage.app(script, { options: { skip, required: true } });
      const dry = { headers: [[DRY, "1"]] as const };
      expectSame(await app.ask(dry), await bare.ask(dry));
      await app.ask({ ...dry, key: [] });
      expect("how often the handler ran", app.runs(), 2);
      expect("how often the store was asked", app.store.calls.claim, 0);
      const first = await app.ask();
      expectReplay(await app.ask(), first);
      expect("how often the handler ran", app.runs(), 3);
    },
  },
  "another body replaces the sent one in the store": redacted(
    { id: 1, pan: "****" },
    '{"id":1,"pan":"****"}',
  ),
  "a text replaces the sent body in the store": redacted("redacted", "redacted"),
  "no body is stored if redact returns null": redacted(null, ""),
  "a fingerprint by a function compares what it returns instead of the body": {
    why: "Clients put times and trace ids into bodies, and the version of an API into a header.",
    async check(stage) {
      const fingerprint = ({ native, header, json: read }: FingerprintedBy) => ({
        version: [header("X-Version"), stage.header(native, VERSION)],
        amount: (read() as { readonly amount: number }).amount,
      });
      const app = await stage.app(countingRuns, { options: { fingerprint } });
      const first = await app.ask({ ...withVersion("1"), body: '{"amount":7,"sentAt":1}' });
      expectReplay(await app.ask({ ...withVersion("1"), body: '{"amount":7,"sentAt":2}' }), first);
      expectProblem(await app.ask({ ...withVersion("1"), body: '{"amount":8}' }), 422, "conflict");
      expectProblem(await app.ask({ ...withVersion("2"), body: '{"amount":7}' }), 422, "conflict");
      expectProblem(
        await app.ask({ ...withVersion("1"), target: "/orders?dry=1", body: '{"amount":7}' }),
        422,
        "conflict",
      );
    },
  },
  ...Object.fromEntries(
    (["none", "before", "after"] as const).map((parser): [string, ExchangeCase] => [
      `members and parts that are left out do not count (parser: ${parser})`,
      {
        needs: parser === "none" ? [] : [`parser-${parser}`],
        why: "A retry that differs in a time stamp or a trace id is the same request.",
        async check(stage) {
          const fingerprint = { without: ["query", "sentAt", "meta.trace"] };
          const app = await stage.app(countingRuns, { parser, options: { fingerprint } });
          const body = (amount: number, trace: string) =>
            JSON.stringify({ amount, sentAt: trace, meta: { trace, kind: "x" } });
          const first = await app.ask({ body: body(7, "a") });
          expectReplay(await app.ask({ target: "/orders?try=2", body: body(7, "b") }), first);
          expectProblem(await app.ask({ body: body(8, "a") }), 422, "conflict");
        },
      },
    ]),
  ),
  "the path is left out only if it is named": {
    why: "The answer about one payment would be given for another one although no one asked for that.",
    async check(stage) {
      const named = { operation: "capture" };
      const strict = await stage.app(countingRuns, { options: named });
      await strict.ask({ target: "/payments/1" });
      expectProblem(await strict.ask({ target: "/payments/2" }), 422, "conflict");
      const loose = await stage.app(countingRuns, {
        options: { ...named, fingerprint: { without: ["path"] } },
      });
      const first = await loose.ask({ target: "/payments/1" });
      expectReplay(await loose.ask({ target: "/payments/2" }), first);
    },
  },
  "a handler keeps its answer longer than the retention": {
    why: "Some answers must outlast the rest, and only the handler knows which.",
    async check(stage) {
      const app = await stage.app(
        ({ number, request }) => {
          if (number === 1) request.attempt?.keepFor(HOUR_MS);
          return answer(201, json({ run: number }));
        },
        { options: { retentionMs: 20 } },
      );
      const first = await app.ask({ key: "long" });
      await app.ask({ key: "short" });
      await stage.until(async () => headerValues(await app.ask({ key: "short" }), REPLAYED).length === 0);
      expectReplay(await app.ask({ key: "long" }), first);
    },
  },
  "a handler keeps its answer shorter than the retention": {
    why: "An answer with a token that expires must not be replayed after that.",
    async check(stage) {
      const app = await stage.app(({ number, request }) => {
        if (number === 1) request.attempt?.keepFor(20);
        return answer(201, json({ run: number }));
      });
      await app.ask();
      await stage.until(async () => toText((await app.ask()).body) === '{"run":2}');
      expect("the replay of the second run", toText((await app.ask()).body), '{"run":2}');
    },
  },
  ...Object.fromEntries(
    [["delete"], ["Delete", "PUT"]].map((methods): [string, ExchangeCase] => [
      `methods are named in any case: ${methods.join(" and ")}`,
      {
        why: "A method in lower case that protected nothing would not be noticed before the first duplicate.",
        async check(stage) {
          const app = await stage.app(countingRuns, { options: { methods } });
          const first = await app.ask({ method: "DELETE" });
          expectReplay(await app.ask({ method: "DELETE" }), first);
        },
      },
    ]),
  ),
};

interface FingerprintedBy {
  readonly native: unknown;
  header(name: string): string | undefined;
  json(): unknown;
}
