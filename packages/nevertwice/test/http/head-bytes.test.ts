/** Header values beyond ASCII on node's own responses: the same bytes without the layer, behind it, and in a replay. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { idempotency } from "../../src/http/node.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { REPLAYED } from "./replayed-header.ts";
import { exchange, listen, requestText } from "./wire.ts";

type Handler = (req: IncomingMessage, res: ServerResponse) => unknown;
type Options = Omit<HttpOptions<IncomingMessage>, "scope">;

const DISPOSITION = 'attachment; filename="na\u00efve.txt"';
const DESCRIPTION = "caf\u00e9 \u00c3\u00a9 \u0080\u00ff";

function behindLayer(handler: Handler, options: Options = {}): Handler {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  return idempotency(guard, { scope: "anyone", ...options })(handler) as Handler;
}

const ask = (port: number, headers: Readonly<Record<string, string>> = {}) =>
  exchange(port, requestText("", { "Idempotency-Key": "k-1", ...headers }));

const valuesIn = (said: string) =>
  ["content-disposition", "content-description"].map(
    (name) => new RegExp(`^${name}: (.*)\r$`, "im").exec(said)?.[1],
  );

function putHeaders(res: ServerResponse): void {
  res.setHeader("Content-Disposition", DISPOSITION);
  res.setHeader("Content-Description", DESCRIPTION);
}

const GIVEN = { "Content-Disposition": DISPOSITION, "Content-Description": DESCRIPTION };

const WAYS: Readonly<Record<string, (res: ServerResponse) => unknown>> = {
  "a text": (res) => res.end("h\u00e9llo"),
  "a text in latin1": (res) => res.end("h\u00e9llo", "latin1"),
  bytes: (res) => res.end(Buffer.from("hello")),
  "an empty text": (res) => res.end(""),
  nothing: (res) => res.end(),
  "a text in pieces": (res) => {
    res.write("he");
    res.end("llo");
  },
  "a text in pieces of a known length": (res) => {
    res.setHeader("Content-Length", 5);
    res.write("he");
    res.end("llo");
  },
  "bytes in pieces of a known length": (res) => {
    res.setHeader("Content-Length", 5);
    res.write(Buffer.from("he"));
    res.end("llo");
  },
  "a text whose length is known before": (res) => {
    res.removeHeader("Content-Disposition");
    res.setHeader("Content-Length", 5);
    res.setHeader("Content-Disposition", DISPOSITION);
    res.end("hello");
  },
  "a head that is written with its headers": (res) => {
    res.writeHead(200, { ...GIVEN, "Content-Length": 5 });
    res.end("hello");
  },
  "a head that is written, and bytes": (res) => {
    res.writeHead(200);
    res.end(Buffer.from("hello"));
  },
  "a head that is flushed": (res) => {
    res.flushHeaders();
    res.end("hello");
  },
  "a status without a body": (res) => {
    res.statusCode = 204;
    res.end("dropped");
  },
};

test.each(Object.entries(WAYS))(
  "%s: first answer and replay have the bytes of the bare one",
  async (_, way) => {
    const handler: Handler = (_req, res) => {
      putHeaders(res);
      return way(res);
    };
    const bare = valuesIn(await ask(await listen(handler)));
    expect(bare.every((value) => value !== undefined)).toBe(true);
    const port = await listen(behindLayer(handler, { onNotKept: "status" }));
    const [first, again] = [await ask(port), await ask(port)];
    expect(valuesIn(first)).toEqual(bare);
    expect(valuesIn(again)).toEqual(bare);
    expect(again).toMatch(new RegExp(`^${REPLAYED}: true\\r$`, "im"));
  },
);

test.each<[string, Options, Record<string, string>]>([
  ["keeps no body", { keep: "marker", onNotKept: "status" }, {}],
  ["adds lines for other origins", {}, { Origin: "https://shop.example" }],
])("where the layer %s, a replay has the bytes of the first answer", async (_, options, headers) => {
  const handler: Handler = (_req, res) => {
    putHeaders(res);
    res.setHeader("Content-Length", 5);
    res.writeHead(200);
    res.end("hello");
  };
  const port = await listen(behindLayer(handler, options));
  const [first, again] = [await ask(port, headers), await ask(port, headers)];
  expect(valuesIn(again)).toEqual(valuesIn(first));
  expect(valuesIn(again)[1]).toBe(Buffer.from(DESCRIPTION).toString("latin1"));
});

test.each<[string, (res: ServerResponse) => unknown]>([
  ["a character that no header can hold", (res) => res.setHeader("X-Owner", "\u0416")],
  ["a line break", (res) => res.writeHead(200, { "X-Owner": "a\r\nb" })],
  [
    "a Content-Disposition that node refuses after the length",
    (res) => res.writeHead(200, { "Content-Length": 5, "Content-Disposition": DISPOSITION }),
  ],
])("%s is an error of the handler, and releases the key", async (_, put) => {
  let runs = 0;
  const refused: unknown[] = [];
  const layer = behindLayer(async (_req, res) => {
    runs++;
    if (runs === 1) put(res);
    res.end("hello");
  });
  const port = await listen(async (req, res) => {
    try {
      await layer(req, res);
    } catch (error) {
      refused.push((error as NodeJS.ErrnoException).code);
      res.statusCode = 500;
      res.end("failed");
    }
  });
  const [first, again] = [await ask(port), await ask(port)];
  expect([first.slice(0, 13), first.slice(-6)]).toEqual(["HTTP/1.1 500 ", "failed"]);
  expect(refused).toEqual(["ERR_INVALID_CHAR"]);
  expect([again.slice(0, 13), again.slice(-5)]).toEqual(["HTTP/1.1 200 ", "hello"]);
});
