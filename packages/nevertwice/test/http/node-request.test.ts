import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import type { RequestBody } from "../../src/http/http-message.ts";
import { ClientGone, NodeRequest, type ParsedBody } from "../../src/http/node-request.ts";
import { deferred } from "../deferred.ts";
import { exchange, listen, open, parsed, requestText, session2 } from "./wire.ts";

const MAX = 1_000;

function shown(body: RequestBody | "too-large"): string {
  if (body === "too-large") return body;
  return body.kind === "bytes" ? Buffer.from(body.bytes).toString() : JSON.stringify(body.value);
}

/** A body that a parser has read is there at once, without a promise. */
async function readBody(node: NodeRequest<unknown>): Promise<RequestBody | "too-large"> {
  return node.readBody(MAX);
}

/** Sends a request, reads it by `readBody`, then passes it to `after`. */
async function read(
  sent: string,
  after: (req: IncomingMessage) => unknown = () => undefined,
  before: (req: IncomingMessage & ParsedBody) => unknown = () => undefined,
): Promise<{ body: string; after: unknown; answer: string }> {
  const result = deferred<{ body: string; after: unknown }>();
  const port = await listen(async (req, res) => {
    await before(req);
    const node = new NodeRequest(req, req);
    const body = await readBody(node).then(shown, (error: Error) => error.message);
    result.resolve({ body, after: await after(req) });
    res.end("answered");
  });
  const answer = await exchange(port, sent);
  return { ...(await result.promise), answer: parsed(answer).body };
}

const CHUNKED = { "Transfer-Encoding": "chunked", "Content-Length": "" };

function chunkedText(...pieces: string[]): string {
  const chunks = [...pieces, ""].map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`);
  return requestText(chunks.join(""), CHUNKED).replace("Content-Length: \r\n", "");
}

/** The ways in which handlers and other layers read a body. */
const READERS: Record<string, (req: IncomingMessage) => Promise<string>> = {
  "data and end": async (req) => {
    let read = "";
    req.setEncoding("utf8");
    req.on("data", (chunk: string) => {
      read += chunk;
    });
    await once(req, "end");
    return read;
  },
  "a loop": async (req) => {
    let read = "";
    for await (const chunk of req) read += chunk;
    return read;
  },
  "a pipe": async (req) => {
    const { PassThrough } = await import("node:stream");
    return text(req.pipe(new PassThrough()));
  },
  "readable events": async (req) => {
    let read = "";
    req.on("readable", () => {
      for (let chunk = req.read(); chunk !== null; chunk = req.read()) read += chunk;
    });
    await once(req, "end");
    return read;
  },
  "a web Request": async (req) => {
    const port = await listen(async (inner, res) => res.end(await text(inner)));
    const response = await fetch(`http://127.0.0.1:${port}`, {
      method: "POST",
      body: req as unknown as ReadableStream,
      duplex: "half",
    } as RequestInit);
    return response.text();
  },
};

describe("an unread body", () => {
  const BODIES: Record<string, { sent: string; body: string }> = {
    "in one piece": { sent: requestText('{"a":1}'), body: '{"a":1}' },
    "in chunks": { sent: chunkedText('{"a"', ":1}"), body: '{"a":1}' },
    empty: { sent: requestText(""), body: "" },
    "of no chunks": { sent: chunkedText(), body: "" },
    "as long as may be": { sent: requestText("x".repeat(MAX)), body: "x".repeat(MAX) },
  };

  describe.each(Object.keys(BODIES))("%s", (name) => {
    const { sent, body } = BODIES[name] as { sent: string; body: string };

    it.each(Object.keys(READERS))("is read, and still readable by %s", async (reader) => {
      const result = await read(sent, READERS[reader]);
      expect(result).toEqual({ body, after: body, answer: "answered" });
    });
  });

  it.each(Object.keys(READERS))(
    "that arrives in chunks is read, and still readable by %s",
    async (reader) => {
      const result = deferred<unknown>();
      const arrived = deferred();
      const port = await listen(async (req, res) => {
        arrived.resolve();
        const body = shown(await new NodeRequest(req, req).readBody(MAX));
        result.resolve([body, await READERS[reader]?.(req)]);
        res.end();
      });
      const wire = await open(port);
      wire.send(requestText("", { "Content-Length": "9" }));
      await arrived.promise;
      wire.socket.setNoDelay(true);
      for (const piece of ["one", "two", "six"]) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        wire.send(piece);
      }
      expect(await result.promise).toEqual(["onetwosix", "onetwosix"]);
    },
  );

  it("is not changed if it is never read, and can be read by two layers", async () => {
    const result = await read(requestText("twice"), async (req) => {
      const second = shown(await new NodeRequest(req, req).readBody(MAX));
      return [second, await text(req)];
    });
    expect(result).toEqual({ body: "twice", after: ["twice", "twice"], answer: "answered" });
  });

  it("that has an encoding is read as its bytes", async () => {
    const before = (req: IncomingMessage) => req.setEncoding("latin1");
    const result = await read(requestText("caf\u00e9"), (req) => text(req), before);
    expect(Buffer.from(result.body)).toEqual(Buffer.from([0x63, 0x61, 0x66, 0xef, 0xbf, 0xbd]));
    expect(result.after).toBe("caf\u00e9");
  });

  it("works with Expect: 100-continue", async () => {
    const port = await listen(async (req, res) => {
      res.end(shown(await new NodeRequest(req, req).readBody(MAX)));
    });
    const sending = request({ port, method: "POST", headers: { Expect: "100-continue" } });
    sending.flushHeaders();
    await once(sending, "continue");
    sending.end("gone on");
    const [response] = (await once(sending, "response")) as [IncomingMessage];
    expect(await text(response)).toBe("gone on");
  });
});

describe("a body that is too large", () => {
  /** More than the buffers of a connection take. */
  const LONG = 20_000_000;

  it("is refused by its Content-Length before it arrives", async () => {
    const port = await listen(async (req, res) => {
      res.end(shown(await new NodeRequest(req, req).readBody(MAX)));
    });
    const wire = await open(port);
    wire.send(requestText("", { "Content-Length": String(MAX + 1), Connection: "keep-alive" }));
    expect(parsed(await wire.until((all) => all.endsWith("too-large"))).body).toBe("too-large");
  });

  it("is refused by its real length if it has no Content-Length", async () => {
    expect((await read(chunkedText("x".repeat(MAX), "y"))).body).toBe("too-large");
    expect((await read(chunkedText("x".repeat(MAX)))).body).toBe("x".repeat(MAX));
  });

  it.each([
    ["said", `${LONG}`],
    ["not said", undefined],
  ])("is discarded, so that its connection can be used again; its length is %s", async (_name, length) => {
    const port = await listen(async (req, res) => {
      const body = shown(await new NodeRequest(req, req).readBody(MAX));
      res.end(`${body.length} bytes;`);
    });
    const wire = await open(port);
    const long = "x".repeat(LONG);
    const headers = { Connection: "keep-alive" };
    wire.send(
      length === undefined
        ? chunkedText(long).replace("Connection: close", "Connection: keep-alive")
        : requestText(long, headers),
    );
    await wire.until((all) => all.includes("9 bytes;"));
    wire.send(requestText("next", headers));
    await wire.until((all) => all.includes("4 bytes;"));
  });
});

describe("a client that disconnects", () => {
  it.each([
    ["before anything of its body", ""],
    ["in the middle of its body", "hal"],
  ])("%s rejects with ClientGone", async (_name, piece) => {
    const failed = deferred<unknown>();
    const started = deferred();
    const port = await listen((req) => {
      readBody(new NodeRequest(req, req)).then(failed.resolve, failed.resolve);
      setImmediate(started.resolve);
    });
    const wire = await open(port);
    wire.send(requestText("", { "Content-Length": "7" }));
    await started.promise;
    wire.socket.write(piece, () => wire.socket.destroy());
    expect(await failed.promise).toBeInstanceOf(ClientGone);
  });

  it("rejects with ClientGone over HTTP/2 too, where half a body ends like a whole one", async () => {
    const failed = deferred<unknown>();
    const seen = deferred<boolean>();
    const arrived = deferred();
    const session = await session2((req) => {
      req.stream.once("data", () => setImmediate(arrived.resolve));
      const node = new NodeRequest(req, req as unknown as IncomingMessage);
      req.on("aborted", () => seen.resolve(node.isGone()));
      readBody(node).then(failed.resolve, failed.resolve);
    });
    session.on("error", () => {});
    const stream = session.request({ ":method": "POST" });
    stream.on("error", () => {});
    stream.write("half");
    await arrived.promise;
    session.destroy();
    expect(await seen.promise).toBe(true);
    expect(await failed.promise).toBeInstanceOf(ClientGone);
  });

  it("rejects with ClientGone also if it was destroyed", async () => {
    const failed = deferred<unknown>();
    const port = await listen((req) => {
      readBody(new NodeRequest(req, req)).then(failed.resolve, failed.resolve);
      setImmediate(() => req.destroy());
    });
    const wire = await open(port);
    wire.send(requestText("", { "Content-Length": "7" }));
    expect(await failed.promise).toBeInstanceOf(ClientGone);
  });

  it("before its body is read rejects with ClientGone", async () => {
    const failed = deferred<unknown>();
    const port = await listen(async (req) => {
      await new Promise((resolve) => req.on("close", resolve));
      readBody(new NodeRequest(req, req)).then(failed.resolve, failed.resolve);
    });
    const wire = await open(port);
    wire.send(requestText("", { "Content-Length": "7" }));
    wire.socket.write("hal", () => wire.socket.destroy());
    expect(await failed.promise).toBeInstanceOf(ClientGone);
  });

  it.each<[string, "close" | "end", (socket: Socket) => void]>([
    ["resets its connection", "close", (socket) => socket.resetAndDestroy()],
    ["closes its half", "end", (socket) => socket.end()],
  ])("is reported by isGone when it %s, and not before", async (_name, event, leave) => {
    const isRead = deferred();
    const seen = deferred<boolean[]>();
    const port = await listen(async (req, res) => {
      const node = new NodeRequest(req, req);
      await node.readBody(MAX);
      const before = node.isGone();
      isRead.resolve();
      await new Promise((resolve) => req.socket.on(event, resolve));
      seen.resolve([before, node.isGone(), res.headersSent]);
    });
    const wire = await open(port);
    wire.send(requestText("whole"));
    await isRead.promise;
    leave(wire.socket);
    expect(await seen.promise).toEqual([false, true, false]);
  });
});

describe("a body that was already read", () => {
  /** A parser that leaves something behind. */
  function parser(left: (body: string) => ParsedBody): (req: IncomingMessage) => Promise<void> {
    return async (req) => {
      Object.assign(req, left(await text(req)));
    };
  }

  it("is the value that its parser left", async () => {
    const before = parser((body) => ({ body: JSON.parse(body) }));
    expect((await read(requestText('{"a": 1}'), undefined, before)).body).toBe('{"a":1}');
  });

  it("is its bytes, if the parser kept them", async () => {
    const raw = parser((body) => ({ body: {}, rawBody: Buffer.from(body) }));
    expect((await read(requestText('{"a": 1}'), undefined, raw)).body).toBe('{"a": 1}');
    const rawText = parser((body) => ({ body: {}, rawBody: body }));
    expect((await read(requestText('{"a": 1}'), undefined, rawText)).body).toBe('{"a": 1}');
    const bytes = parser((body) => ({ body: Buffer.from(body) }));
    expect((await read(requestText('{"a": 1}'), undefined, bytes)).body).toBe('{"a": 1}');
  });

  it("has the same limit", async () => {
    const long = "x".repeat(MAX + 1);
    for (const left of [() => ({ body: {} }), (body: string) => ({ rawBody: Buffer.from(body) })]) {
      expect((await read(requestText(long), undefined, parser(left))).body).toBe("too-large");
    }
  });

  it("and of which no value is left is refused with a hint what to do", async () => {
    const result = await read(
      requestText("lost"),
      undefined,
      parser(() => ({})),
    );
    expect(result.body).toMatch(/^options-invalid: .*Mount this layer in front of that reader/);
  });

  it("by a reader that is about to start is refused too, and that reader gets it once", async () => {
    const result = deferred<string>();
    let read = "";
    const port = await listen(async (req, res) => {
      req.on("data", (chunk) => {
        read += chunk;
      });
      const body = readBody(new NodeRequest(req, req));
      result.resolve(await body.then(shown, (error: Error) => error.message));
      await once(req, "end");
      res.end();
    });
    await exchange(port, requestText("whole"));
    expect(await result.promise).toMatch(/^options-invalid: /);
    expect(read).toBe("whole");
  });

  it("by a reader that has not finished is refused too", async () => {
    const before = (req: IncomingMessage) => void req.on("data", () => {});
    const result = await read(requestText("lost"), undefined, before);
    expect(result.body).toMatch(/^options-invalid: /);
  });

  it("and had files is refused with a hint what to do", async () => {
    const sent = requestText("lost", { "Content-Type": "multipart/form-data; boundary=x" });
    const result = await read(
      sent,
      undefined,
      parser(() => ({ body: { field: "1" } })),
    );
    expect(result.body).toMatch(/^options-invalid: .*Mount this layer in front of the upload parser/);
  });

  it("and had nothing in it is empty, whatever the parser left", async () => {
    expect(
      (
        await read(
          requestText(""),
          undefined,
          parser(() => ({})),
        )
      ).body,
    ).toBe("");
  });
});

describe("the rest of a request", () => {
  it("SF-12 shows two lines of a header as two", async () => {
    const seen = deferred<unknown>();
    const port = await listen((req, res) => {
      const node = new NodeRequest(req, req);
      seen.resolve([node.header("idempotency-key"), node.header("x-none"), node.method, node.target]);
      res.end();
    });
    const sent = requestText("").replace(
      "\r\n\r\n",
      '\r\nIdempotency-Key: "a"\r\nIDEMPOTENCY-KEY: "b"\r\n\r\n',
    );
    await exchange(port, sent);
    expect(await seen.promise).toEqual(['"a", "b"', undefined, "POST", "/orders"]);
  });
});
