/** Sample answers of every kind. Each is used twice: for the first answer and for its replay. */
import { gzipSync } from "node:zlib";
import type { HeaderLine } from "../../http/http-message.ts";
import type { HttpOptions } from "../../http/options.ts";
import type { Need, ScriptedAnswer } from "./harness.ts";
import { answer, bytes, json, noise, stream, text, type, utf8, written } from "./script.ts";

export interface Sample {
  readonly needs?: readonly Need[];
  readonly options?: Omit<HttpOptions<unknown>, "scope">;
  readonly method?: string;
  /** Creates a new answer for every run, since a stream can be read only once. */
  answer(): ScriptedAnswer;
}

/** A small `maxOutcomeBytes`, so that the cases about it are fast. */
export const CAP_BYTES = 65_536;

const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, i) => i);
const PIECES = ["one, ", "two, ", "", "three"].map(utf8);

/** Values in latin1, values that hold UTF-8 as one character for each byte, and a header that is not replayed. */
const BEYOND_ASCII: readonly HeaderLine[] = [
  ["Content-Disposition", 'attachment; filename="na\u00efve.txt"'],
  ["Content-Description", "caf\u00e9"],
  ["Link", '</a>; title="na\u00c3\u00afve"'],
  ["Link", '</b>; title="\u0080\u00ff"'],
  ["X-Owner", "Zo\u00eb"],
];

/** The names fit into "… is sent as …" and "… is replayed unchanged". */
export const SAMPLES: Readonly<Record<string, Sample>> = {
  "a JSON answer with a Location, an ETag and two Link lines": {
    answer: () =>
      answer(201, json({ id: 7, owner: "Zoë", amount: 12.5, tags: ["a", null] }), [
        ["Location", "/orders/7"],
        ["ETag", '"v1"'],
        ["Last-Modified", "Sun, 15 Nov 2015 10:00:00 GMT"],
        ["Link", '</orders/7>; rel="self"'],
        ["Link", '</orders?page=2>; rel="next", </orders>; rel="up"'],
        ["X-Request-Id", "r-1"],
      ]),
  },
  "a text in UTF-8 with a byte order mark": {
    answer: () => answer(200, text("\uFEFFgrüezi ☃ \u0000 \r\n𝄞"), [type("text/plain; charset=utf-8")]),
  },
  "a binary answer of every byte value": {
    answer: () => answer(200, bytes(EVERY_BYTE), [type("application/octet-stream")]),
  },
  "an empty 200": { answer: () => answer(200) },
  "a 204": { answer: () => answer(204, undefined, [["ETag", '"v2"']]) },
  "a 303 with a Location": { answer: () => answer(303, undefined, [["Location", "/orders/7"]]) },
  "a 304": { answer: () => answer(304, undefined, [["ETag", '"v3"']]) },
  "a 404 of the handler": { answer: () => answer(404, json({ error: "no such order" })) },
  "a 422 of the handler": { answer: () => answer(422, json({ error: "too little stock" })) },
  "an answer to PATCH": { method: "PATCH", answer: () => answer(200, json({ id: 7 })) },
  "an answer that sets many cookies": {
    answer: () =>
      answer(200, json({ ok: true }), [
        ["Set-Cookie", "a=1; Path=/; Expires=Sun, 15 Nov 2026 10:00:00 GMT"],
        ["Set-Cookie", "b=2; HttpOnly"],
        ["Set-Cookie", "c=3, 4; Secure"],
      ]),
  },
  "a compressed answer": {
    answer: () =>
      answer(200, bytes(gzipSync("twice ".repeat(500))), [
        type("text/plain; charset=utf-8"),
        ["Content-Encoding", "gzip"],
      ]),
  },
  "an answer with its own reason phrase": {
    needs: ["reason"],
    answer: () => ({ ...answer(200, json({ ok: true })), reason: "Very Well" }),
  },
  "an answer written in several pieces": {
    needs: ["written"],
    answer: () => answer(200, written(PIECES), [type("text/plain; charset=utf-8")]),
  },
  "an answer written in pieces that are not text by themselves": {
    needs: ["written"],
    answer: () => answer(200, written(byteByByte(utf8("☃𝄞"))), [type("text/plain; charset=utf-8")]),
  },
  "an answer written with trailers": {
    needs: ["written", "trailers"],
    answer: () => ({
      ...answer(200, written(PIECES), [type("text/plain"), ["Trailer", "X-Checksum"]]),
      trailers: [["X-Checksum", "abc"]],
    }),
  },
  "an answer from a stream": {
    needs: ["stream"],
    answer: () => answer(200, stream(PIECES.filter(({ length }) => length > 0)), [type("text/plain")]),
  },
  "a binary answer from a stream": {
    needs: ["stream"],
    answer: () => answer(200, stream([noise(30_000), EVERY_BYTE]), [type("application/octet-stream")]),
  },
  "an empty answer from a stream": {
    needs: ["stream"],
    answer: () => answer(200, stream([]), [type("text/plain")]),
  },
  "a JSON answer with headers beyond ASCII": {
    answer: () => answer(200, json({ ok: true }), BEYOND_ASCII),
  },
  "a text with headers beyond ASCII": {
    answer: () => answer(200, text("grüezi"), [type("text/plain; charset=utf-8"), ...BEYOND_ASCII]),
  },
  "a binary answer with headers beyond ASCII": {
    answer: () => answer(200, bytes(EVERY_BYTE), [type("application/octet-stream"), ...BEYOND_ASCII]),
  },
  "an empty answer with headers beyond ASCII": { answer: () => answer(200, undefined, BEYOND_ASCII) },
  "a 204 with headers beyond ASCII": { answer: () => answer(204, undefined, BEYOND_ASCII) },
  "an answer written in pieces with headers beyond ASCII": {
    needs: ["written"],
    answer: () => answer(200, written(PIECES), [type("text/plain"), ...BEYOND_ASCII]),
  },
  "an answer from a stream with headers beyond ASCII": {
    needs: ["stream"],
    answer: () => answer(200, stream([EVERY_BYTE]), [type("application/octet-stream"), ...BEYOND_ASCII]),
  },
  "an answer just below the cap": {
    options: { maxOutcomeBytes: CAP_BYTES },
    answer: () => answer(200, text("a".repeat(CAP_BYTES - 512)), [type("text/plain; charset=utf-8")]),
  },
  "an answer from a stream just below the cap": {
    needs: ["stream"],
    options: { maxOutcomeBytes: CAP_BYTES },
    answer: () =>
      answer(200, stream(Array.from({ length: 63 }, () => utf8("a".repeat(1_024)))), [type("text/plain")]),
  },
};

function byteByByte(content: Uint8Array): Uint8Array[] {
  return Array.from(content, (byte) => Uint8Array.of(byte));
}
