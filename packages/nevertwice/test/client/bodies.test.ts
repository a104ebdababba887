/** Tests that bodies of every kind arrive as fetch would send them, and as the same bytes at every try. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createFetch, isNoAnswer, type KeyedFetch } from "../../src/client/index.ts";
import { CREATED, type Received, startServer } from "./server.ts";

const QUICK = { firstPauseMs: 1, maxPauseMs: 1 } as const;
const BYTES = Uint8Array.of(0, 255, 13, 10, 128, 65);

function form(): FormData {
  const data = new FormData();
  data.append("name", "Ada");
  data.append("name", "Grace\nHopper");
  data.append('odd"name\r\n', "ü 😀");
  data.append("file", new File([BYTES], 'a"b\n.bin', { type: "image/png" }));
  data.append("blob", new Blob(["plain"]));
  return data;
}

function stream(): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(BYTES);
      controller.close();
    },
  });
}

function sent({ body, headers }: Received) {
  return { body: body.toString("latin1"), type: headers["content-type"], length: headers["content-length"] };
}

type Body = NonNullable<RequestInit["body"]>;
const KINDS: readonly (readonly [kind: string, make: () => Body])[] = [
  ["text", () => "grüße, 😀"],
  ["empty text", () => ""],
  ["URLSearchParams", () => new URLSearchParams({ a: "1 2", b: "&ü" })],
  ["Blob", () => new Blob([BYTES], { type: "application/x-thing" })],
  ["Blob without a type", () => new Blob([BYTES])],
  ["ArrayBuffer", () => BYTES.slice().buffer],
  ["Uint8Array", () => BYTES.slice()],
  ["part of a buffer", () => new Uint8Array(BYTES.slice().buffer, 1, 3)],
  ["DataView", () => new DataView(BYTES.slice().buffer, 2)],
  ["Buffer", () => Buffer.from("pooled")],
];

describe("a body of", () => {
  it.each(KINDS)("%s arrives at every try as fetch alone sends it", async (_, make) => {
    const server = await startServer(CREATED, "reset", { status: 503 }, CREATED);
    await fetch(server.url, { method: "POST", body: make() });
    await createFetch(QUICK)(server.url, { method: "POST", body: make() });
    const [plain, ...tries] = server.received.map(sent);
    expect(tries).toEqual([plain, plain, plain]);
  });

  it.each(KINDS)("%s in a Request does too", async (_, make) => {
    const server = await startServer(CREATED, "reset", CREATED);
    await fetch(new Request(server.url, { method: "POST", body: make() }));
    const request = new Request(server.url, { method: "POST", body: make(), headers: { "x-own": "kept" } });
    await createFetch(QUICK)(request);
    const [plain, ...tries] = server.received.map(sent);
    expect(tries).toEqual([plain, plain]);
    expect(server.received[2]?.headers["x-own"]).toBe("kept");
  });

  it("text keeps the content type that the caller gives it", async () => {
    const server = await startServer(CREATED);
    const headers = { "Content-Type": "application/json" };
    await createFetch(QUICK)(server.url, { method: "POST", body: "{}", headers });
    expect(server.received[0]?.headers["content-type"]).toBe("application/json");
  });

  it("a buffer is copied when the call starts", async () => {
    const server = await startServer("reset", CREATED);
    const body = Uint8Array.of(1, 2, 3);
    await createFetch({ ...QUICK, onRetry: () => body.fill(9) })(server.url, { method: "POST", body });
    expect(server.received.map(({ body: bytes }) => [...bytes])).toEqual([
      [1, 2, 3],
      [1, 2, 3],
    ]);
  });

  it("any kind is sent again after a redirect", async () => {
    for (const [, make] of [...KINDS, ["form", form] as const]) {
      const server = await startServer({ status: 307, headers: { location: "/moved" } }, CREATED);
      const response = await createFetch(QUICK)(server.url, { method: "POST", body: make() });
      expect(response.status).toBe(201);
      expect(server.received[1]?.body).toEqual(server.received[0]?.body);
    }
  });
});

describe("a form", () => {
  it("has the same bytes at every try and in every call", async () => {
    const server = await startServer("reset", { status: 503 }, CREATED);
    const keyedFetch = createFetch(QUICK);
    await keyedFetch(server.url, { method: "POST", body: form() });
    await keyedFetch(server.url, { method: "POST", body: form() });
    const all = server.received.map(sent);
    expect(all).toHaveLength(4);
    expect(new Set(all.map((one) => JSON.stringify(one))).size).toBe(1);
  });

  it("is encoded as by the platform, except the boundary", async () => {
    const piece = fc.oneof(
      fc.string(),
      fc.string({ unit: fc.constantFrom("\r", "\n", '"', "%", "-", "a", "é") }),
      fc.constantFrom("", "--nevertwice-form-boundary-0-", "nevertwice-form-boundary-1-", "😀"),
    );
    const entry = fc.oneof(
      fc.record({ name: piece, text: piece }),
      fc.record({
        name: piece,
        bytes: fc.uint8Array({ maxLength: 20 }),
        // Without a name Node leaves the parameter out, against the standard.
        file: piece.filter((text) => text !== ""),
        type: fc.constantFrom("", "text/css"),
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 4 }), async (entries) => {
        const data = new FormData();
        for (const one of entries) {
          if ("text" in one) data.append(one.name, one.text);
          else data.append(one.name, new File([new Uint8Array(one.bytes)], one.file, { type: one.type }));
        }
        expect(await encoded(data)).toEqual(await platformEncoded(data));
      }),
      { numRuns: 300 },
    );
  });

  it("cannot end one of its own parts early", async () => {
    const data = new FormData();
    data.append(
      "a",
      'x\r\n--nevertwice-form-boundary-0-\r\nContent-Disposition: form-data; name="admin"\r\n\r\nyes',
    );
    data.append("b", new Blob(["nevertwice-form-boundary-1-"]));
    const server = await startServer(CREATED);
    await createFetch(QUICK)(server.url, { method: "POST", body: data });
    const { body, headers } = server.received[0] as Received;
    const contentType = headers["content-type"] as string;
    const read = await new Response(new Uint8Array(body), {
      headers: { "content-type": contentType },
    }).formData();
    expect([...read.keys()]).toEqual(["a", "b"]);
  });

  /** What is handed to fetch, with the boundary taken out. */
  async function encoded(data: FormData): Promise<readonly string[]> {
    let handed: Response | undefined;
    const keyedFetch = createFetch({
      fetch: async (_, init) => {
        handed = new Response(init?.body ?? null, { headers: new Headers(init?.headers) });
        return new Response();
      },
    });
    await keyedFetch("/", { method: "POST", body: data });
    return withoutBoundary(handed as Response);
  }

  function platformEncoded(data: FormData): Promise<readonly string[]> {
    return withoutBoundary(new Response(data));
  }

  async function withoutBoundary(response: Response): Promise<readonly string[]> {
    const boundary = /boundary=(.+)$/.exec(response.headers.get("content-type") ?? "")?.[1] as string;
    const bytes = Buffer.from(await response.arrayBuffer()).toString("latin1");
    return bytes.split(`--${boundary}`);
  }
});

type StreamCase = readonly [where: string, make: (url: string) => Parameters<KeyedFetch>];

describe("a stream", () => {
  it.each<StreamCase>([
    ["as the body", (url: string) => [url, { method: "POST", body: stream(), duplex: "half" }]],
    ["in a Request", (url: string) => [new Request(url, { method: "POST", body: stream(), duplex: "half" })]],
    [
      "as an async iterable",
      (url: string) => {
        const body = (async function* () {
          yield BYTES;
        })();
        return [url, { method: "POST", body, duplex: "half" }];
      },
    ],
  ])("CL-14 %s is sent once: neither a lost connection nor a 503 is retried", async (_, make) => {
    const server = await startServer("reset", { status: 503 }, CREATED);
    const keyedFetch = createFetch(QUICK);
    const lost = await keyedFetch(...make(server.url)).catch((error: unknown) => error);
    expect(isNoAnswer(lost) && [lost.tries, lost.hasKey]).toEqual([1, true]);
    const refused = await keyedFetch(...make(server.url));
    expect(refused.status).toBe(503);
    expect(server.received).toHaveLength(2);
    expect(server.received[1]?.body).toEqual(Buffer.from(BYTES));
    expect(server.received[1]?.headers["transfer-encoding"]).toBe("chunked");
  });
});

describe("a Request", () => {
  it("is overridden by options next to it, as with fetch", async () => {
    const server = await startServer("reset", CREATED);
    const request = new Request(`${server.url}/a`, {
      method: "PUT",
      body: "its own",
      headers: { "x-a": "1" },
    });
    await createFetch(QUICK)(request, { method: "POST", body: "another", headers: { "x-b": "2" } });
    const { method, body, headers } = server.received[1] as Received;
    expect([method, body.toString(), headers["x-a"], headers["x-b"]]).toEqual([
      "POST",
      "another",
      undefined,
      "2",
    ]);
  });

  it("keeps its referrer", async () => {
    let handed: RequestInit | undefined;
    const keyedFetch = createFetch({
      fetch: async (_, init) => {
        handed = init;
        return new Response();
      },
    });
    const request = new Request("http://localhost/a", {
      referrer: "http://localhost/b",
      referrerPolicy: "origin",
    });
    const { referrer } = request;
    await keyedFetch(request);
    expect(handed?.referrerPolicy).toBe("origin");
    expect(handed?.referrer).toBe(referrer === "about:client" ? undefined : referrer);
  });

  it("whose body was read already is refused as fetch refuses it", async () => {
    const request = new Request("http://localhost/", { method: "POST", body: "x" });
    await request.text();
    await expect(createFetch(QUICK)(request)).rejects.toThrow(TypeError);
  });

  it("without a body is sent without one", async () => {
    const server = await startServer("reset", CREATED);
    await createFetch(QUICK)(new Request(server.url, { method: "DELETE" }));
    expect(server.received[1]?.body).toHaveLength(0);
  });
});
