/** The layer reads bodies for their fingerprint, and the handler still reads the same bytes, whole and in order. */
import { expect } from "../cases/expect.ts";
import { expectProblem, expectReplay } from "./answers.ts";
import type { Need } from "./harness.ts";
import { answer, countingRuns, json, noise, oneByOne, utf8 } from "./script.ts";
import type { Asked, Case, Cases, Given } from "./stage.ts";

const BOUNDARY = "next-part";
const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, i) => i);

const FORM_PARTS = [
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="title"\r\n\r\nHallo ☃\r\n`,
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n`,
  "Content-Type: application/octet-stream\r\n\r\n\u0000\u0001\u0002\r\n",
  `--${BOUNDARY}--\r\n`,
].join("");

interface Body {
  readonly needs?: readonly Need[];
  asked(): Asked;
}

const BODIES: Readonly<Record<string, Body>> = {
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

/** Bodies that a parser of JSON and forms takes. */
const PARSED = ["JSON", "a form"] as const;

function seenAlike(body: Body, parser: NonNullable<Given["parser"]>, needs: readonly Need[]): Case {
  return {
    needs: [...(body.needs ?? []), ...needs],
    why: "A handler that reads other bytes than were sent does something else than was asked.",
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

const LIMIT: Given = { options: { maxBodyBytes: 1_024 } };

function refused(asked: () => Asked, needs: readonly Need[]): Case {
  return {
    needs,
    why: "A body without end must not fill the memory, and one that was refused must not have used the key up.",
    async check(stage) {
      const app = await stage.app(countingRuns, LIMIT);
      expectProblem(await app.ask(asked()), 413, "body-too-large");
      expect("how often the handler ran", app.runs(), 0);
      expect("how often the store was asked", app.store.calls.claim, 0);
      expect("the status of a smaller body with that key", (await app.ask()).status, 201);
    },
  };
}

export const requestBodies: Cases = {
  ...Object.fromEntries(
    Object.entries(BODIES).map(([name, body]): [string, Case] => [
      `a handler that reads for itself sees ${name} as without the layer`,
      seenAlike(body, "none", []),
    ]),
  ),
  ...Object.fromEntries(
    PARSED.flatMap((name): [string, Case][] =>
      (["before", "after"] as const).map((parser) => [
        `a handler behind a parser ${parser} the layer sees ${name} as without it`,
        seenAlike(BODIES[name] as Body, parser, [`parser-${parser}`]),
      ]),
    ),
  ),
  ...Object.fromEntries(
    (["before", "after"] as const).map((parser): [string, Case] => [
      `with a parser ${parser} the layer another body is still another request`,
      {
        needs: [`parser-${parser}`],
        why: "A layer that cannot see the body takes every request for the first one.",
        async check(stage) {
          const app = await stage.app(countingRuns, { parser });
          const first = await app.ask();
          expectProblem(await app.ask({ body: '{"amount":8}' }), 422, "conflict");
          expectReplay(await app.ask({ body: '{ "amount" : 7.0 }' }), first);
        },
      },
    ]),
  ),
  "a body that says it is too long is refused": refused(
    () => ({ body: "x".repeat(5_000), type: "text/plain" }),
    [],
  ),
  "a body in chunks that grows too long is refused": refused(
    () => ({ body: oneByOne(Array.from({ length: 20 }, () => noise(500))), type: "text/plain" }),
    ["uploads"],
  ),
  "a body that is far too long is refused though it is still being sent": refused(
    () => ({ body: oneByOne(Array.from({ length: 64 }, () => noise(65_536))), type: "text/plain" }),
    ["uploads"],
  ),
  "a body that says it is too long is refused before it comes": {
    needs: ["uploads"],
    why: "A client that asks before it sends is spared the sending, and the server the reading.",
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
  "a body of exactly the limit is taken": {
    why: "A limit that is off by one refuses what was promised.",
    async check(stage) {
      const app = await stage.app(countingRuns, LIMIT);
      const asked = { body: "x".repeat(1_024), type: "text/plain" };
      expect("the status", (await app.ask(asked)).status, 201);
      expect("what the handler saw", app.seen, [Buffer.from(asked.body).toString("base64")]);
    },
  },
  "a body that is not fingerprinted reaches the handler as it comes, however long": {
    needs: ["uploads"],
    why: "An upload that must be whole before the handler sees it must be held in memory.",
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
  "a handler that does not read the body is answered for all the same": {
    why: "Many handlers need only the path.",
    async check(stage) {
      const app = await stage.app(countingRuns, { readsItself: true });
      const first = await app.ask({ body: noise(300_000), type: "application/octet-stream" });
      const again = await app.ask({ body: noise(300_000), type: "application/octet-stream" });
      expectReplay(again, first);
    },
  },
};
