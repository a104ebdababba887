/** The layer reads bodies for their fingerprint, and the handler can still read the same bytes. */
import { expect } from "../cases/expect.ts";
import type { Need } from "./harness.ts";
import { expectProblem, expectReplay } from "./response-checks.ts";
import { answer, countingRuns, json, noise, oneByOne, utf8 } from "./script.ts";
import type { AppSetup, ExchangeCase, ExchangeCases, RequestOverrides } from "./stage.ts";

const BOUNDARY = "next-part";
const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, i) => i);

const FORM_PARTS = [
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="title"\r\n\r\nHallo ☃\r\n`,
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n`,
  "Content-Type: application/octet-stream\r\n\r\n\u0000\u0001\u0002\r\n",
  `--${BOUNDARY}--\r\n`,
].join("");

interface BodySample {
  readonly needs?: readonly Need[];
  asked(): RequestOverrides;
}

const BODIES: Readonly<Record<string, BodySample>> = {
  JSON: { asked: () => ({ body: ' { "amount": 7, "note": "ü" }\n' }) },
  "a form": { asked: () => ({ body: "amount=7&note=%C3%BC", type: "application/x-www-form-urlencoded" }) },
  "a multipart form": {
    asked: () => ({ body: FORM_PARTS, type: `multipart/form-data; boundary=${BOUNDARY}` }),
  },
  "binary data": { asked: () => ({ body: EVERY_BYTE, type: "application/octet-stream" }) },
  "no data at all": { asked: () => ({ body: null, type: null }) },
  "an empty body with a type": { asked: () => ({ body: "", type: "text/plain" }) },
  "a body without a type": { asked: () => ({ body: "amount", type: null }) },
  "a large body": { asked: () => ({ body: noise(700_000), type: "application/octet-stream" }) },
  "a body in chunks": {
    needs: ["uploads"],
    asked: () => ({
      body: oneByOne([utf8('{"am'), utf8('ount":'), utf8("7}")]),
      type: "application/json",
    }),
  },
  "a large body in chunks": {
    needs: ["uploads"],
    asked: () => ({
      body: oneByOne(Array.from({ length: 10 }, () => noise(70_000))),
      type: "application/octet-stream",
    }),
  },
};

/** Bodies that a parser of JSON and forms accepts. */
const PARSED = ["JSON", "a form"] as const;

function seenAlike(
  body: BodySample,
  parser: NonNullable<AppSetup["parser"]>,
  needs: readonly Need[],
): ExchangeCase {
  return {
    needs: [...(body.needs ?? []), ...needs],
    why: "A handler that reads other bytes than were sent does something other than was requested.",
    async check(stage) {
      const bare = await stage.bare(countingRuns, { parser });
      await bare.ask(body.asked());
      const app = await stage.app(countingRuns, { parser });
      const first = await app.ask(body.asked());
      expect("the status", first.status, 201);
      expect("what the handler saw", app.seen, bare.seen);
      expectReplay(await app.ask(body.asked()), first);
      expect("how often the handler ran", app.runs(), 1);
    },
  };
}

const LIMIT: AppSetup = { options: { maxBodyBytes: 1_024 } };

function refused(asked: () => RequestOverrides, needs: readonly Need[]): ExchangeCase {
  return {
    needs,
    why: "An endless body must not fill the memory, and a refused body must not use up the key.",
    async check(stage) {
      const app = await stage.app(countingRuns, LIMIT);
      expectProblem(await app.ask(asked()), 413, "body-too-large");
      expect("how often the handler ran", app.runs(), 0);
      expect("how often the store was asked", app.store.calls.claim, 0);
      expect("the status of a smaller body with that key", (await app.ask()).status, 201);
    },
  };
}

export const requestBodies: ExchangeCases = {
  ...Object.fromEntries(
    Object.entries(BODIES).map(([name, body]): [string, ExchangeCase] => [
      `a handler that reads the body sees ${name} as without the layer`,
      seenAlike(body, "none", []),
    ]),
  ),
  ...Object.fromEntries(
    PARSED.flatMap((name): [string, ExchangeCase][] =>
      (["before", "after"] as const).map((parser) => [
        `a handler with a parser ${parser} the layer sees ${name} as without the layer`,
        seenAlike(BODIES[name] as BodySample, parser, [`parser-${parser}`]),
      ]),
    ),
  ),
  ...Object.fromEntries(
    (["before", "after"] as const).map((parser): [string, ExchangeCase] => [
      `with a parser ${parser} the layer, another body is a conflict`,
      {
        needs: [`parser-${parser}`],
        why: "A layer that cannot see the body would treat every request as the first one.",
        async check(stage) {
          const app = await stage.app(countingRuns, { parser });
          const first = await app.ask();
          expectProblem(await app.ask({ body: '{"amount":8}' }), 422, "conflict");
          expectReplay(await app.ask({ body: '{ "amount" : 7.0 }' }), first);
        },
      },
    ]),
  ),
  "a body whose Content-Length is too long is refused": refused(
    () => ({ body: "x".repeat(5_000), type: "text/plain" }),
    [],
  ),
  "a chunked body that exceeds the limit is refused": refused(
    () => ({ body: oneByOne(Array.from({ length: 20 }, () => noise(500))), type: "text/plain" }),
    ["uploads"],
  ),
  "a body that is far too long is refused while it is being sent": refused(
    () => ({ body: oneByOne(Array.from({ length: 64 }, () => noise(65_536))), type: "text/plain" }),
    ["uploads"],
  ),
  "a body whose Content-Length is too long is refused before it arrives": {
    needs: ["uploads"],
    why: "The client need not send the body, and the server need not read it.",
    async check(stage) {
      const gate = stage.gate();
      const late = async function* (): AsyncGenerator<Uint8Array> {
        await gate.opened;
        yield noise(5_000);
      };
      const app = await stage.app(countingRuns, LIMIT);
      const visit = app.visit({ body: late(), type: "text/plain", headers: [["Content-Length", "5000"]] });
      const { status } = await visit.head;
      expect("the status, while nothing of the body has come", status, 413);
      gate.open();
      expect("how often the handler ran", app.runs(), 0);
    },
  },
  "a body of exactly the limit is accepted": {
    why: "A limit that is off by one refuses what the documentation promises.",
    async check(stage) {
      const app = await stage.app(countingRuns, LIMIT);
      const asked = { body: "x".repeat(1_024), type: "text/plain" };
      expect("the status", (await app.ask(asked)).status, 201);
      expect("what the handler saw", app.seen, [Buffer.from(asked.body).toString("base64")]);
    },
  },
  "a body that is not fingerprinted streams to the handler, whatever its length": {
    needs: ["uploads"],
    why: "If the handler got an upload only when it is complete, the upload would have to be held in memory.",
    async check(stage) {
      const gate = stage.gate();
      const upload = async function* (): AsyncGenerator<Uint8Array> {
        yield noise(1_000);
        await gate.opened;
        for (let i = 0; i < 40; i++) yield noise(65_536);
      };
      let isBegun = false;
      const app = await stage.app(
        async ({ request }) => {
          let length = 0;
          for await (const chunk of request.stream?.() ?? []) {
            length += chunk.length;
            isBegun = true;
          }
          return answer(200, json({ length }));
        },
        { readsItself: true, options: { ...LIMIT.options, fingerprint: "none" } },
      );
      const visit = app.visit({ body: upload(), type: "application/octet-stream" });
      await stage.until(() => isBegun);
      gate.open();
      const first = await visit.rest();
      expect(
        "what the handler read",
        Buffer.from(first.body).toString(),
        `{"length":${1_000 + 40 * 65_536}}`,
      );
    },
  },
  "a handler that does not read the body is protected too": {
    why: "Many handlers need only the path.",
    async check(stage) {
      const app = await stage.app(countingRuns, { readsItself: true });
      const first = await app.ask({ body: noise(300_000), type: "application/octet-stream" });
      const again = await app.ask({ body: noise(300_000), type: "application/octet-stream" });
      expectReplay(again, first);
    },
  },
};
