/** Every client gets an answer that it can read, even if the first client accepted more codings. */
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { expect } from "../cases/expect.ts";
import { type CollectedResponse, expectReplay, headerValues, shown } from "./response-checks.ts";
import { answer, bytes, type HandlerScript, type as typed, utf8 } from "./script.ts";
import type { ExchangeCase, ExchangeCases, RequestOverrides } from "./stage.ts";

const TEXT = "twice ".repeat(500);
const PACKED = { gzip: gzipSync(TEXT), deflate: deflateSync(TEXT), br: brotliCompressSync(TEXT) };
const STALE = ["content-encoding", "content-digest", "content-md5"];

type Coding = keyof typeof PACKED;

function compressing(coding: Coding): HandlerScript {
  return () =>
    answer(200, bytes(PACKED[coding]), [
      typed("text/plain; charset=utf-8"),
      ["Content-Encoding", coding],
      ["Content-Digest", "sha-256=:AAAA:"],
      ["ETag", '"v1"'],
      ["Vary", "Accept-Encoding"],
    ]);
}

function accepting(accepted: string | undefined): RequestOverrides {
  return accepted === undefined ? {} : { headers: [["accept-encoding", accepted]] };
}

/** Clients that cannot read gzip, by what they send. */
const UNABLE: Readonly<Record<string, string | undefined>> = {
  "sends no Accept-Encoding": undefined,
  "sends Accept-Encoding: identity": "identity",
  "sends Accept-Encoding: gzip;q=0": "gzip;q=0",
  "sends Accept-Encoding: br;q=1.0, *;q=0, identity": "br;q=1.0, *;q=0, identity",
};

const why = "A client that cannot unpack the bytes never gets an answer, since the work is not done again.";

export const codings: ExchangeCases = {
  ...Object.fromEntries(
    Object.entries(UNABLE).map(([what, accepted]): [string, ExchangeCase] => [
      `a compressed answer is unpacked for a client that ${what}`,
      {
        why,
        async check(stage) {
          const app = await stage.app(compressing("gzip"));
          const first = await app.ask(accepting("gzip, deflate, br"));
          expect("Content-Encoding of the first answer", headerValues(first, "content-encoding"), ["gzip"]);
          expectUnpacked(await app.ask(accepting(accepted)));
          expectReplay(await app.ask(accepting("gzip")), first);
          expect("how often the handler ran", app.runs(), 1);
        },
      },
    ]),
  ),
  ...Object.fromEntries(
    (["deflate", "br"] as const).map((coding): [string, ExchangeCase] => [
      `an answer in ${coding} is unpacked for a client that knows only gzip`,
      {
        why,
        async check(stage) {
          const app = await stage.app(compressing(coding));
          await app.ask(accepting("gzip, deflate, br"));
          expectUnpacked(await app.ask(accepting("gzip")));
        },
      },
    ]),
  ),
  "an answer in an unknown coding is replayed unchanged": {
    why: "The client may be able to read it; a part of the answer, or none, would be worse.",
    async check(stage) {
      const lines = [typed("text/plain"), ["Content-Encoding", "rot13"]] as const;
      const app = await stage.app(() => answer(200, bytes(utf8("gjvpr")), lines));
      const first = await app.ask(accepting("rot13"));
      expectReplay(await app.ask(accepting("identity")), first);
    },
  },
  "an answer that is wrongly labelled as gzip is replayed unchanged": {
    why: "The layer cannot know what the service meant, so it repeats what was sent.",
    async check(stage) {
      const lines = [typed("text/plain"), ["Content-Encoding", "gzip"]] as const;
      const app = await stage.app(() => answer(200, bytes(utf8("not packed")), lines));
      const first = await app.ask(accepting("gzip"));
      expectReplay(await app.ask(accepting("identity")), first);
    },
  },
  "an answer that is compressed for every client is replayed unchanged": {
    why: "The client did not ask for the coding, so the service sends it to all clients.",
    async check(stage) {
      const app = await stage.app(compressing("gzip"));
      const first = await app.ask(accepting("identity"));
      expectReplay(await app.ask(accepting("identity")), first);
      expectReplay(await app.ask(), first);
    },
  },
};

function expectUnpacked(again: CollectedResponse): void {
  expect("the status of the replay", again.status, 200);
  expect("the body of the replay", shown(again.body), shown(utf8(TEXT)));
  for (const name of STALE) expect(`${name} of the replay`, headerValues(again, name), []);
  expect("ETag of the replay, which is of other bytes now", headerValues(again, "etag"), ['W/"v1"']);
  const vary = headerValues(again, "vary").join(", ");
  expect("whether the replay says that it varies", /accept-encoding/i.test(vary), true);
  const length = headerValues(again, "content-length");
  expect("whether the length is the body's own", ["", String(TEXT.length)].includes(length.join()), true);
}
