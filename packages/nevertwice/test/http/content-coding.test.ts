/** When a stored answer is unpacked for a client, and when it is sent unchanged. */
import { brotliCompressSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { decodeForClient, isCodedFor } from "../../src/http/content-coding.ts";
import type { HeaderLine, HttpReply } from "../../src/http/http-message.ts";
import { idempotency } from "../../src/http/node.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { exchange, listen, parsed, requestText } from "./wire.ts";

const TEXT = "charged ".repeat(100);

function kept(coding: string, body: Uint8Array, ...more: HeaderLine[]): HttpReply {
  const headers: HeaderLine[] = [["content-encoding", coding], ["vary", "accept-encoding"], ...more];
  return { kind: "reply", status: 200, headers, body };
}

const textOf = ({ body }: HttpReply) => Buffer.from(body as Uint8Array).toString();

describe("a kept answer", () => {
  test.each([
    ["gzip", undefined],
    ["x-gzip", "identity"],
    ["GZIP", ""],
    ["gzip", "gzip;q=0"],
    ["gzip", "gzip;q=0.000, br"],
    ["gzip", "*;q=0, identity"],
    ["gzip", "deflate;q=1, br;q=0.5"],
    ["gzip", "gzip;q=none"],
  ])("in %s is unpacked for a client with Accept-Encoding %j", async (coding, accepted) => {
    const reply = await decodeForClient(kept(coding, gzipSync(TEXT)), accepted);
    expect(textOf(reply)).toBe(TEXT);
    expect(reply.headers).toEqual([["vary", "accept-encoding"]]);
  });

  test.each([
    ["gzip", "gzip"],
    ["gzip", "x-gzip"],
    ["x-gzip", "GZIP;q=0.001"],
    ["gzip", "*"],
    ["gzip", "identity;q=0"],
    ["gzip", "br, *;q=0"],
  ])("in %s is sent unchanged to a client with Accept-Encoding %j", async (coding, accepted) => {
    const reply = kept(coding, gzipSync(TEXT));
    expect(await decodeForClient(reply, accepted)).toBe(reply);
  });

  test("in two codings is unpacked in reverse, and only for a client that lacks one of them", async () => {
    const reply = kept("br, gzip", gzipSync(brotliCompressSync(TEXT)));
    expect(textOf(await decodeForClient(reply, "gzip"))).toBe(TEXT);
    expect(await decodeForClient(reply, "gzip, br")).toBe(reply);
  });

  test("that is partial, empty, or without Vary is sent unchanged", async () => {
    const part = kept("gzip", gzipSync(TEXT), ["content-range", "bytes 0-9/99"]);
    const empty = kept("gzip", new Uint8Array());
    const fixed: HttpReply = { ...kept("gzip", gzipSync(TEXT)), headers: [["content-encoding", "gzip"]] };
    for (const reply of [part, empty, fixed]) expect(await decodeForClient(reply, "identity")).toBe(reply);
  });

  test("that unpacks to more than 16 MiB is sent unchanged", async () => {
    const most = 16 * 1_024 * 1_024;
    const [fits, bomb] = [Buffer.alloc(most), Buffer.alloc(most + 1)].map((body) =>
      kept("gzip", gzipSync(body)),
    );
    expect((await decodeForClient(fits as HttpReply, "identity")).body).toHaveLength(most);
    expect(await decodeForClient(bomb as HttpReply, "identity")).toBe(bomb);
  });

  test.each(["constructor", "__proto__", "toString", "rot13", "gzip, rot13"])(
    "in %s, which cannot be unpacked, is sent unchanged",
    async (coding) => {
      const reply = kept(coding, gzipSync(TEXT));
      expect(await decodeForClient(reply, "identity")).toBe(reply);
    },
  );
});

test("an answer counts as compressed for its client only if the client accepts all of its codings", () => {
  const lines: HeaderLine[] = [
    ["Content-Encoding", "br"],
    ["Content-Encoding", "gzip"],
  ];
  expect(isCodedFor(lines, "gzip, br")).toBe(true);
  expect(isCodedFor(lines, "gzip")).toBe(false);
  expect(isCodedFor(lines, undefined)).toBe(false);
  expect(isCodedFor([["content-encoding", "identity"]], "gzip")).toBe(false);
  expect(isCodedFor([], "*")).toBe(false);
});

test("a Vary of outer layers is kept next to the layer's own", async () => {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  const layer = idempotency(guard, { scope: "anyone" })((_req, res) => {
    res.setHeader("Content-Encoding", "gzip");
    res.end(gzipSync(TEXT));
  });
  const port = await listen((req, res) => {
    res.setHeader("Vary", "Origin");
    return layer(req, res);
  });
  const ask = (codings: string) =>
    exchange(port, requestText("{}", { "Idempotency-Key": '"k"', "Accept-Encoding": codings })).then(parsed);
  await ask("gzip");
  const plain = await ask("identity");
  expect(plain.body).toBe(TEXT);
  const vary = plain.headers.filter((line) => /^vary:/i.test(line)).join();
  expect(vary).toMatch(/Origin/);
  expect(vary).toMatch(/accept-encoding/);
  await guard.close();
});
