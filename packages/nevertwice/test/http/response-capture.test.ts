import { once } from "node:events";
import { type IncomingMessage, type RequestListener, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { HttpResponse } from "../../src/http/http-message.ts";
import { type CaptureOptions, ResponseCapture } from "../../src/http/response-capture.ts";
import { deferred } from "../deferred.ts";
import { exchange, listen, open, parsed, requestText } from "./wire.ts";

const HOLD: CaptureOptions = {
  exchange: {
    maxHeldBytes: 1_000,
    holds: (_status, header) => header("content-type") !== "text/event-stream",
  },
  added: [],
  goneMs: 60_000,
};

type Handler = (res: ServerResponse, req: IncomingMessage) => unknown;

interface Held {
  readonly port: number;
  /** Resolves with the capture of the running request as soon as its handler was called. */
  capture(): Promise<ResponseCapture>;
}

/** A server that holds each answer until the test releases it. */
async function holding(handler: Handler, how: Partial<CaptureOptions> = {}): Promise<Held> {
  const { promise, resolve } = deferred<ResponseCapture>();
  const port = await listen((req, res) => {
    const capture = new ResponseCapture(res, { ...HOLD, ...how });
    capture.response.catch(() => {});
    handler(res, req);
    resolve(capture);
  });
  return { port, capture: () => promise };
}

/** Whole bodies as text, so that they can be read in a failure. */
function shown({ status, headers, body }: HttpResponse) {
  return { status, headers, body: body === undefined ? undefined : Buffer.from(body).toString("latin1") };
}

const ANSWERS: Record<string, Handler> = {
  "a text": (res) => res.end("done"),
  "a text in latin1": (res) => res.end("caf\u00e9", "latin1"),
  "a text in hex": (res) => res.end("00ff80", "hex"),
  bytes: (res) => res.end(Buffer.from([0, 255, 128, 13, 10])),
  "a plain Uint8Array": (res) => res.end(new Uint8Array([1, 2, 3])),
  nothing: (res) => res.end(),
  "an empty text": (res) => res.end(""),
  "only a callback": (res) => res.end(() => {}),
  "text and a callback": (res) => res.end("done", () => {}),
  "several writes": (res) => {
    res.write("one,");
    res.write(Buffer.from("two,"));
    res.write("746872656521", "hex");
    res.end(",end");
  },
  "a head, then a text": (res) => res.writeHead(201, { "X-One": "1", "x-two": 2 }).end("done"),
  "a head in turn": (res) => res.writeHead(201, ["X-One", "1", "X-Two", "2"]).end("done"),
  "a head with a reason": (res) => res.writeHead(299, "Fine Enough", { "X-One": "1" }).end("done"),
  "its own reason phrase": (res) => {
    res.statusMessage = "Very Well";
    res.end("done");
  },
  "headers set, and more in the head": (res) => {
    res.setHeader("X-One", "0");
    res.setHeader("X-Three", ["3", "4"]);
    res.writeHead(200, { "x-one": "1", "Set-Cookie": ["a=1", "b=2"] }).end("done");
  },
  "several cookies": (res) => {
    res.appendHeader("Set-Cookie", "a=1");
    res.appendHeader("Set-Cookie", "b=2");
    res.end("done");
  },
  "its own Content-Length": (res) => {
    res.setHeader("Content-Length", 4);
    res.write("do");
    res.end("ne");
  },
  "its own chunks": (res) => {
    res.setHeader("Transfer-Encoding", "chunked");
    res.end("done");
  },
  trailers: (res) => {
    res.setHeader("Trailer", "X-Sum");
    res.write("done");
    res.addTrailers({ "X-Sum": "4" });
    res.end();
  },
  "trailers on a body in one piece": (res) => {
    res.setHeader("Trailer", "X-Sum");
    res.addTrailers({ "X-Sum": "4" });
    res.end("done");
  },
  "no content": (res) => res.writeHead(204).end(),
  "a body where there is none": (res) => res.writeHead(204).end("this is not sent"),
  "not modified": (res) => res.writeHead(304, { ETag: '"1"' }).end(),
  "reset content": (res) => res.writeHead(205).end(),
  "a redirect": (res) => res.writeHead(303, { Location: "/orders/1" }).end(),
  "no date": (res) => {
    res.sendDate = false;
    res.end("done");
  },
  "no length": (res) => {
    res.removeHeader("Content-Length");
    res.end("done");
  },
  "a disposition in latin1": (res) => {
    res.setHeader("Content-Disposition", 'attachment; filename="caf\u00e9"');
    res.end("done");
  },
  corked: (res) => {
    res.cork();
    res.write("one");
    res.write("two");
    process.nextTick(() => {
      res.uncork();
      res.end();
    });
  },
  "early hints, then an answer": (res) => {
    res.writeProcessing();
    res.writeEarlyHints({ link: "</a.css>; rel=preload" });
    res.end("done");
  },
  "a pipe": (res) => Readable.from([Buffer.from("one"), Buffer.from("two")]).pipe(res),
  "a pipeline": (res) => pipeline(Readable.from(["one", "two"]), res),
  "one write after the other": async (res) => {
    for (const piece of ["one", "two", "three"])
      await new Promise<void>((resolve) => {
        res.write(piece, () => resolve());
      });
    res.end();
  },
  "the same bytes filled again": async (res) => {
    const bytes = Buffer.alloc(3);
    for (const piece of ["one", "two", "six"]) {
      bytes.write(piece);
      await new Promise<void>((resolve) => {
        res.write(bytes, () => resolve());
      });
    }
    res.end();
  },
  "a long text": (res) => res.end("x".repeat(5_000)),
  "a long stream": (res) => Readable.from(["x".repeat(700), "y".repeat(700), "z"]).pipe(res),
  events: (res) => {
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    res.write("data: 1\n\n");
    res.end("data: 2\n\n");
  },
  "a flushed head": (res) => {
    res.flushHeaders();
    setImmediate(() => res.end("done"));
  },
};

const LINES = ["POST / HTTP/1.1", "HEAD / HTTP/1.1", "POST / HTTP/1.0"];

/** Releases every answer at once. */
function releasing(handler: Handler): RequestListener {
  return async (req, res) => {
    const capture = new ResponseCapture(res, HOLD);
    handler(res, req);
    await capture.response;
    await turn();
    capture.release();
  };
}

describe("a released response", () => {
  it.each(Object.keys(ANSWERS))("equals that of the bare server: %s", async (name) => {
    const handler = ANSWERS[name] as Handler;
    const bare = await listen((req, res) => void handler(res, req));
    const held = await listen(releasing(handler));
    // Node refuses trailers where there are no chunks to put them behind.
    const lines = name.startsWith("trailers") ? LINES.slice(0, 1) : LINES;
    for (const line of lines) {
      const request = requestText("", {}, line);
      const [expected, actual] = await Promise.all([exchange(bare, request), exchange(held, request)]);
      expect(parsed(actual)).toEqual(parsed(expected));
    }
  });

  it("keeps the connection for the next request, in order", async () => {
    let count = 0;
    const port = await listen(releasing((res) => res.end(`answer ${++count};`)));
    const wire = await open(port);
    const request = requestText("", { Connection: "keep-alive" });
    wire.send(request + request + request);
    const text = await wire.until((all) => all.includes("answer 3;"));
    expect(text.match(/answer \d;/g)).toEqual(["answer 1;", "answer 2;", "answer 3;"]);
  });
});

describe("a held response", () => {
  it("sends no byte", async () => {
    const { port, capture } = await holding((res) => {
      res.writeHead(201, { "X-One": "1" });
      res.write("one,");
      res.end("two");
    });
    const wire = await open(port);
    wire.send(requestText(""));
    const held = await capture();
    expect(shown(await held.response)).toEqual({ status: 201, headers: [["x-one", "1"]], body: "one,two" });
    for (let i = 0; i < 20; i++) await turn();
    expect(wire.text()).toBe("");
    held.release();
    expect(parsed(await wire.closed())).toMatchObject({ line: "HTTP/1.1 201 Created", body: "one,two" });
  });

  it("reports all lines of its head, in whichever way they were set", async () => {
    const { port, capture } = await holding((res) => {
      res.setHeader("X-One", 1);
      res.setHeader("X-Two", "replaced");
      res.appendHeader("Set-Cookie", ["a=1", "b=2"]);
      res.writeHead(200, ["X-Two", "2", "X-Three", "3"]);
      res.end();
    });
    void exchange(port, requestText("")).catch(() => {});
    const { headers } = await (await capture()).response;
    expect(headers).toEqual([
      ["x-one", "1"],
      ["set-cookie", "a=1"],
      ["set-cookie", "b=2"],
      ["x-two", "2"],
      ["x-three", "3"],
    ]);
  });

  it("looks sent to the handler: its head is fixed and it has ended", async () => {
    const seen: unknown[] = [];
    const { port, capture } = await holding((res) => {
      seen.push(res.headersSent, res.writableEnded);
      res.statusCode = 201;
      res.end("first");
      seen.push(res.headersSent, res.writableEnded, res.finished);
      for (const change of [() => res.setHeader("X-Late", "1"), () => res.writeHead(500)]) {
        try {
          change();
        } catch (error) {
          seen.push((error as NodeJS.ErrnoException).code);
        }
      }
      res.statusCode = 500;
      res.on("error", (error: NodeJS.ErrnoException) => seen.push(error.code));
      res.end("second");
      res.end();
    });
    const answered = exchange(port, requestText(""));
    const held = await capture();
    expect(await held.response).toMatchObject({ status: 201 });
    await turn();
    held.release();
    expect(seen).toEqual([
      false,
      false,
      true,
      true,
      true,
      "ERR_HTTP_HEADERS_SENT",
      "ERR_HTTP_HEADERS_SENT",
      "ERR_STREAM_WRITE_AFTER_END",
    ]);
    expect(parsed(await answered)).toMatchObject({ line: "HTTP/1.1 201 Created", body: "first" });
  });

  it("throws the same errors as Node, in the handler", async () => {
    const codes: unknown[] = [];
    const { port, capture } = await holding((res) => {
      for (const mistake of [
        () => res.write(null),
        () => res.write(7),
        () => res.end([1, 2]),
        () => res.writeHead(1_000),
        () => res.writeHead(200, { "X-Bad": "a\r\nb" }),
      ]) {
        try {
          mistake();
        } catch (error) {
          codes.push((error as NodeJS.ErrnoException).code);
        }
      }
      res.end("fine");
    });
    const answered = exchange(port, requestText(""));
    const held = await capture();
    await held.response;
    held.release();
    expect(codes).toEqual([
      "ERR_INVALID_ARG_TYPE",
      "ERR_INVALID_ARG_TYPE",
      "ERR_INVALID_ARG_TYPE",
      "ERR_HTTP_INVALID_STATUS_CODE",
      "ERR_INVALID_CHAR",
    ]);
    expect(parsed(await answered).body).toBe("fine");
  });

  it("adds lines to the values that the application set, in whichever way", async () => {
    const added = [["x-added", "ours"]] as const;
    for (const handler of [
      (res: ServerResponse) => res.setHeader("X-Added", "theirs").end(),
      (res: ServerResponse) => res.writeHead(200, { "X-Added": "theirs" }).end(),
      (res: ServerResponse) => res.writeHead(200, "OK", ["X-Added", "theirs"]).end(),
    ]) {
      const { port, capture } = await holding(handler, { added });
      const answered = exchange(port, requestText(""));
      const held = await capture();
      expect((await held.response).headers).toEqual([["x-added", "theirs"]]);
      held.release();
      const { headers } = parsed(await answered);
      expect(headers.filter((line) => /^x-added/i.test(line)).map((line) => line.split(": ")[1])).toEqual([
        "theirs",
        "ours",
      ]);
    }
  });

  it("calls writers back at once, and the callback of end only when the response was sent", async () => {
    const called: string[] = [];
    const { port, capture } = await holding((res) => {
      res.on("finish", () => called.push("finish"));
      res.write("one", () => called.push("write"));
      res.end("two", () => called.push("end"));
    });
    const answered = exchange(port, requestText(""));
    const held = await capture();
    await held.response;
    for (let i = 0; i < 5; i++) await turn();
    expect(called).toEqual(["write"]);
    held.release();
    await answered;
    expect(called.sort()).toEqual(["end", "finish", "write"]);
  });
});

describe("a streamed response", () => {
  it("is detected when it exceeds maxHeldBytes", async () => {
    const { port, capture } = await holding((res) => {
      res.write("x".repeat(1_000));
      res.write("y");
    });
    void exchange(port, requestText("")).catch(() => {});
    expect(shown(await (await capture()).response).body).toBeUndefined();
  });

  it("is held whole at exactly that length", async () => {
    const { port, capture } = await holding((res) => res.end("x".repeat(1_000)));
    void exchange(port, requestText("")).catch(() => {});
    expect((await (await capture()).response).body).toHaveLength(1_000);
  });

  it("is also a single text that is longer", async () => {
    const { port, capture } = await holding((res) => res.end("x".repeat(1_001)));
    void exchange(port, requestText("")).catch(() => {});
    expect((await (await capture()).response).body).toBeUndefined();
  });

  it("is detected by its head for events, and when the handler flushes its head", async () => {
    for (const handler of [
      (res: ServerResponse) => res.writeHead(200, { "Content-Type": "text/event-stream" }),
      (res: ServerResponse) => res.flushHeaders(),
    ]) {
      const { port, capture } = await holding(handler);
      const wire = await open(port);
      wire.send(requestText(""));
      const held = await capture();
      expect((await held.response).body).toBeUndefined();
      expect(wire.text()).toBe("");
      held.release();
    }
  });

  it("sends a flushed head without waiting for a body", async () => {
    const { port, capture } = await holding((res) => res.flushHeaders());
    const wire = await open(port);
    wire.send(requestText(""));
    (await capture()).release();
    expect(await wire.until((text) => text.endsWith("\r\n\r\n"))).toMatch(/^HTTP\/1.1 200 OK/);
  });

  it("applies backpressure until it is released, so that a long one is never held in memory", async () => {
    const PIECE = Buffer.alloc(64 * 1024, "x");
    const PIECES = 800;
    let pulled = 0;
    const source = new Readable({
      read() {
        pulled++;
        this.push(pulled > PIECES ? null : PIECE);
      },
    });
    const { port, capture } = await holding((res) => source.pipe(res));
    const wire = await open(port);
    let size = 0;
    wire.socket.removeAllListeners("data");
    wire.socket.on("data", (chunk: string) => {
      size += chunk.length;
    });
    wire.send(requestText("", {}, "POST / HTTP/1.0"));
    const held = await capture();
    await held.response;
    for (let i = 0; i < 50; i++) await turn();
    expect(pulled).toBeLessThan(10);
    held.release();
    await once(wire.socket, "close");
    expect(size).toBeGreaterThan(PIECES * PIECE.length);
  });

  it("emits drain, and calls blocked writers back when their chunk was sent", async () => {
    const notified: string[] = [];
    const { port, capture } = await holding(async (res) => {
      notified.push(`first ${res.write("x".repeat(2_000), () => notified.push("first gone"))}`);
      await once(res, "drain");
      notified.push("drain");
      res.end("rest");
    });
    const answered = exchange(port, requestText(""));
    const held = await capture();
    await held.response;
    for (let i = 0; i < 5; i++) await turn();
    expect(notified).toEqual(["first false"]);
    held.release();
    expect(parsed(await answered).body).toBe(`${"x".repeat(2_000)}rest`);
    expect(notified.sort()).toEqual(["drain", "first false", "first gone"]);
  });

  it("calls a blocked writer back when its chunk was sent, also for the last chunk", async () => {
    const notified = deferred();
    const { port, capture } = await holding((res) => {
      res.write("x".repeat(2_000), () => notified.resolve());
      res.end();
    });
    const answered = exchange(port, requestText(""));
    (await capture()).release();
    await notified.promise;
    expect(parsed(await answered).body).toHaveLength(2_000);
  });

  it("is no longer captured after it was released", async () => {
    const { promise, resolve } = deferred<ServerResponse>();
    const { port, capture } = await holding((res) => {
      res.flushHeaders();
      resolve(res);
    });
    void exchange(port, requestText("")).catch(() => {});
    (await capture()).release();
    const { write, end, writeHead, flushHeaders, destroy, emit } = await promise;
    expect({ write, end, writeHead, flushHeaders, destroy, emit }).toEqual({
      write: ServerResponse.prototype.write,
      end: ServerResponse.prototype.end,
      writeHead: ServerResponse.prototype.writeHead,
      flushHeaders: ServerResponse.prototype.flushHeaders,
      destroy: ServerResponse.prototype.destroy,
      emit: ServerResponse.prototype.emit,
    });
  });

  it("passes through methods that other layers installed after the capture", async () => {
    const { port, capture } = await holding((res) => {
      const { write, end } = res;
      res.write = (chunk: string) => write.call(res, chunk.toUpperCase(), "utf8");
      res.end = ((chunk: string) => end.call(res, chunk.toUpperCase(), "utf8")) as typeof res.end;
      res.flushHeaders();
      setImmediate(() => {
        res.write("one,");
        res.end("two");
      });
    });
    const answered = exchange(port, requestText(""));
    (await capture()).release();
    expect(parsed(await answered).body).toBe("ONE,TWO");
  });
});

describe("a layer that wrapped the response before the capture", () => {
  it("sees the answer when it is released, and the headers that it adds are not reported", async () => {
    const sent: string[] = [];
    const port = await listen(async (_req, res) => {
      const { writeHead, end } = res;
      res.writeHead = ((...args: Parameters<typeof writeHead>) => {
        res.setHeader("Content-Encoding", "loud");
        return writeHead.apply(res, args);
      }) as typeof writeHead;
      res.end = ((chunk: string) => {
        sent.push("end");
        return end.call(res, chunk.toUpperCase(), "utf8");
      }) as typeof res.end;
      const held = new ResponseCapture(res, HOLD);
      res.end("done");
      const { headers, body } = await held.response;
      sent.push(JSON.stringify(headers), Buffer.from(body as Uint8Array).toString());
      held.release();
    });
    const answer = parsed(await exchange(port, requestText("")));
    expect(sent).toEqual(["[]", "done", "end"]);
    expect(answer.headers).toContain("Content-Encoding: loud");
    expect(answer.body).toBe("DONE");
  });

  it("may be another capture: each holds and releases separately", async () => {
    let isLetGo = false;
    const port = await listen(async (_req, res) => {
      const outer = new ResponseCapture(res, HOLD);
      const inner = new ResponseCapture(res, HOLD);
      res.end("done");
      await inner.response;
      inner.release();
      expect(shown(await outer.response).body).toBe("done");
      isLetGo = true;
      outer.release();
    });
    expect(parsed(await exchange(port, requestText(""))).body).toBe("done");
    expect(isLetGo).toBe(true);
  });
});

describe("a discarded answer", () => {
  const BEGUN: Record<string, Handler> = {
    "one in one piece": (res) => res.setHeader("X-Handler", "1").end("the handler's"),
    "one with a head of every kind": (res) => {
      res.writeHead(202, "Sure", {
        "Content-Length": 3,
        Connection: "close",
        Date: "now",
        "Cache-Control": "x",
      });
      res.end("abc");
    },
    "no content": (res) => res.writeHead(204).end(),
    chunks: (res) => {
      res.setHeader("Trailer", "X-Sum");
      res.write("a");
      res.addTrailers({ "X-Sum": "1" });
      res.end("b");
    },
    "one that is streamed": (res) => res.write("x".repeat(2_000)),
  };

  const ours = (res: ServerResponse) => {
    res.statusCode = 500;
    res.setHeader("X-Own", "2").end("ours");
  };

  it.each(Object.keys(BEGUN))("is never sent: %s", async (name) => {
    const port = await listen(async (req, res) => {
      res.setHeader("X-Before", "1");
      if (req.url !== "/begun") return void ours(res);
      const held = new ResponseCapture(res, HOLD);
      (BEGUN[name] as Handler)(res, req);
      await held.response;
      held.discard();
      expect([res.headersSent, res.writableEnded]).toEqual([false, false]);
      return void ours(res);
    });
    const headers = { Connection: "keep-alive" };
    const wire = await open(port);
    wire.send(requestText("", headers, "POST /begun HTTP/1.1"));
    const first = await wire.until((text) => text.endsWith("ours"));
    wire.send(requestText("", headers, "POST /other HTTP/1.1"));
    const second = (await wire.until((text) => text.length > first.length && text.endsWith("ours"))).slice(
      first.length,
    );
    expect(parsed(first)).toEqual(parsed(second));
    expect(parsed(first).headers).toContain("X-Before: 1");
    expect(first).toMatch(/\r\nDate: /);
  });

  it("leaves nothing in a later answer that is sent in chunks", async () => {
    const port = await listen(async (_req, res) => {
      const held = new ResponseCapture(res, HOLD);
      res.addTrailers({ "X-Sum": "1" });
      res.end("the handler's");
      await held.response;
      held.discard();
      res.write("one,");
      res.end("two");
    });
    const answer = parsed(await exchange(port, requestText("")));
    expect(answer).toEqual({
      line: "HTTP/1.1 200 OK",
      headers: ["Connection: close", "Transfer-Encoding: chunked"],
      body: "one,two",
      trailers: [],
    });
  });
});

describe("a client that disconnects", () => {
  /** The client disconnects while the handler runs; `after` is what the handler does then. */
  async function gone(before: Handler, after: Handler, how: Partial<CaptureOptions> = {}) {
    const events: string[] = [];
    const { promise: isGone, resolve: notified } = deferred<void>();
    const { promise: isStarted, resolve: started } = deferred<void>();
    const { port, capture } = await holding(async (res, req) => {
      res.on("close", () => events.push("close"));
      req.socket.on("close", () => notified());
      before(res, req);
      started();
      await isGone;
      await turn();
      events.push(`destroyed ${res.destroyed}, closed ${res.closed}`);
      await after(res, req);
    }, how);
    const wire = await open(port);
    wire.send(requestText(""));
    await isStarted;
    wire.socket.destroy();
    await isGone;
    return { capture: await capture(), events };
  }

  it("is hidden from the handler until its answer is complete", async () => {
    const { capture, events } = await gone(
      () => {},
      (res) => res.writeHead(201).end("done"),
    );
    expect(shown(await capture.response)).toMatchObject({ status: 201, body: "done" });
    expect(events).toEqual(["destroyed false, closed false"]);
    capture.release();
    expect(events).toEqual(["destroyed false, closed false", "close"]);
  });

  it.each<[string, Handler]>([
    ["a pipe", (res) => Readable.from(["one,", "two"]).pipe(res)],
    ["a pipeline", (res) => pipeline(Readable.from(["one,", "two"]), res).catch(() => {})],
  ])("does not stop %s", async (_name, handler) => {
    const { capture } = await gone(() => {}, handler);
    expect(shown(await capture.response).body).toBe("one,two");
    capture.release();
  });

  it("does not stop an answer that was begun", async () => {
    const source = new Readable({ read() {} });
    const { capture } = await gone(
      (res) => {
        source.push("one,");
        source.pipe(res);
      },
      () => {
        source.push("two");
        source.push(null);
      },
    );
    expect(shown(await capture.response).body).toBe("one,two");
    capture.release();
  });

  it("is hidden from a handler that starts afterwards, and close is emitted once", async () => {
    const events: string[] = [];
    const { promise, resolve } = deferred<HttpResponse>();
    const port = await listen(async (_req, res) => {
      res.on("close", () => events.push("close"));
      await once(res, "close");
      const capture = new ResponseCapture(res, HOLD);
      expect([res.destroyed, res.closed, res.socket]).toEqual([false, false, null]);
      res.end("done");
      resolve(await capture.response);
      capture.release();
      expect([res.destroyed, res.closed]).toEqual([true, true]);
    });
    const wire = await open(port);
    wire.send(requestText(""));
    wire.socket.destroy();
    expect(shown(await promise).body).toBe("done");
    expect(events).toEqual(["close"]);
  });

  it("makes an answer that was begun and never ends count as streamed after goneMs", async () => {
    const { capture } = await gone(
      (res) => res.writeHead(201).write("one"),
      () => {},
      { goneMs: 20 },
    );
    expect(shown(await capture.response)).toMatchObject({ status: 201, body: undefined });
    capture.release();
  });

  it("makes an answer that is begun afterwards and never ends count as streamed after goneMs", async () => {
    const { capture } = await gone(
      () => {},
      (res) => res.write("one"),
      { goneMs: 20 },
    );
    expect(shown(await capture.response)).toMatchObject({ status: 200, body: undefined });
    capture.release();
  });

  it("makes an answer that is destroyed because of it count as streamed", async () => {
    const { capture } = await gone(
      (res) => res.write("one"),
      (res) => res.destroy(),
    );
    expect(shown(await capture.response)).toMatchObject({ status: 200, body: undefined });
    capture.release();
  });

  it("drops a complete answer without an error, also a replaced one", async () => {
    for (const end of ["release", "discard"] as const) {
      const { capture, events } = await gone(
        () => {},
        (res) => {
          res.on("error", () => events.push("error"));
          res.end("done");
        },
      );
      await capture.response;
      capture[end]();
      await turn();
      expect(events).toEqual(["destroyed false, closed false", "close"]);
    }
  });
});

describe("a response that the handler destroys", () => {
  it("is not an answer, and the connection is closed after the attempt has ended", async () => {
    const seen: boolean[] = [];
    const { port, capture } = await holding((res) => {
      res.write("half");
      res.destroy(new Error("the source failed"));
      seen.push(res.destroyed);
    });
    const wire = await open(port);
    wire.send(requestText(""));
    const held = await capture();
    await expect(held.response).rejects.toThrow("the source failed");
    expect([held.isDestroyed, ...seen]).toEqual([true, true]);
    expect(wire.socket.destroyed).toBe(false);
    held.abort();
    expect(await wire.closed()).toBe("");
  });

  it("closes the connection after its whole answer was sent", async () => {
    const { port, capture } = await holding((res) => {
      res.end("done");
      res.destroy();
    });
    const answered = exchange(port, requestText("", { Connection: "keep-alive" }));
    const held = await capture();
    expect(shown(await held.response).body).toBe("done");
    held.release();
    expect(parsed(await answered).body).toBe("done");
  });

  it("is the result of a pipeline whose source fails", async () => {
    const { port, capture } = await holding((res) => {
      const source = new Readable({ read() {} });
      source.push("half");
      pipeline(source, res).catch(() => {});
      setImmediate(() => source.destroy(new Error("the source failed")));
    });
    const wire = await open(port);
    wire.send(requestText(""));
    const held = await capture();
    await expect(held.response).rejects.toThrow("the source failed");
    held.abort();
    expect(await wire.closed()).toBe("");
  });
});
