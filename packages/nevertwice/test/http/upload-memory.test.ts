/** Tests that a large upload or answer is never held in memory. Each test collects garbage on the way and counts the bytes that are still alive. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { wireTo } from "../../src/testing/adapter-cases/wire.ts";
import type {
  AdapterHarness,
  HandledRequest,
  ScriptedAnswer,
  SentRequest,
} from "../../src/testing/adapter-cases.ts";
import { expressHarness } from "./adapters/express.ts";
import { fastifyHarness } from "./adapters/fastify.ts";
import { fetchHarness } from "./adapters/fetch.ts";
import { honoHarness } from "./adapters/hono.ts";
import { koaHarness } from "./adapters/koa.ts";
import { nestExpressHarness, nestFastifyHarness } from "./adapters/nest.ts";
import { http2Harness, nodeHarness } from "./adapters/node.ts";

const MIB = 1_048_576;
const CHUNK = new Uint8Array(65_536).fill(120);
const CHUNKS = 512;
const TOTAL = CHUNK.length * CHUNKS;
/** A layer that keeps the whole body exceeds this by far. The buffers of sockets stay far below it. */
const MOST_BYTES = 8 * MIB;
/** A collection is slow, and two of them show what is kept as well as many do. */
const SAMPLE_EVERY = 256;

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as (how?: { type: "minor" }) => void;

/** The buffers that the first collection found are counted as free only when the second one begins. */
function collect(): void {
  gc();
  gc({ type: "minor" });
}

interface Memory {
  /** The most bytes that were alive in buffers, beyond those before. */
  most: number;
  sample(): void;
}

function measuring(): Memory & { report(title: string): void } {
  collect();
  const before = process.memoryUsage();
  let resident = 0;
  const memory = {
    most: 0,
    sample() {
      resident = Math.max(resident, process.memoryUsage().rss - before.rss);
      collect();
      memory.most = Math.max(memory.most, process.memoryUsage().arrayBuffers - before.arrayBuffers);
    },
    report(title: string) {
      const [alive, grown] = [memory.most, resident].map((bytes) => (bytes / MIB).toFixed(1));
      process.stdout.write(`${title}: ${alive} MiB of buffers alive at most, resident set +${grown} MiB\n`);
    },
  };
  return memory;
}

/** 32 MiB, with a measurement in the middle and at the end. */
async function* chunks(memory: Memory): AsyncGenerator<Uint8Array> {
  for (let i = 1; i <= CHUNKS; i++) {
    if (i % SAMPLE_EVERY === 0) memory.sample();
    // Each chunk is a copy, so code that keeps them would hold all of the 32 MiB.
    yield CHUNK.slice();
  }
}

async function lengthOf(body: AsyncIterable<Uint8Array>): Promise<number> {
  let length = 0;
  for await (const chunk of body) length += chunk.length;
  return length;
}

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const ending of endings.splice(0)) await ending();
});

async function served<Native>(
  harness: AdapterHarness<Native>,
  handle: (request: HandledRequest) => Promise<ScriptedAnswer>,
  options: Omit<HttpOptions<Native>, "scope"> = {},
): Promise<(sent: Pick<SentRequest, "body" | "headers">) => ReturnType<ReturnType<typeof wireTo>["send"]>> {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0, drainMs: 0 });
  const app = await harness.serve({
    layer: { guard, options: { ...options, scope: "anyone" } },
    parser: "none",
    handle,
  });
  const wire = wireTo(app);
  endings.push(
    () => wire.close(),
    () => app.stop(),
    () => guard.close(),
  );
  const signal = new AbortController().signal;
  return ({ body, headers }) =>
    wire.send({
      method: "POST",
      target: "/files",
      headers: [["idempotency-key", "file-1"], ["content-type", "application/octet-stream"], ...headers],
      body,
      signal,
    });
}

const read = async (request: HandledRequest): Promise<ScriptedAnswer> => {
  const length = await lengthOf(request.stream?.() ?? (async function* () {})());
  return { status: 200, headers: [], body: { kind: "json", value: { length } } };
};

/** A server refuses and closes while the client still writes, so the client may miss the answer. It then tries again. */
async function untilAnswered<T>(send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await send();
    } catch (error) {
      if (tries === 3) throw error;
    }
  }
}

const HARNESSES = {
  node: nodeHarness,
  http2: http2Harness,
  express: expressHarness,
  koa: koaHarness,
  fastify: fastifyHarness,
  hono: honoHarness,
  "nest on express": nestExpressHarness,
  "nest on fastify": nestFastifyHarness,
  fetch: fetchHarness,
} as unknown as Readonly<Record<string, AdapterHarness<unknown>>>;

describe.each(Object.entries(HARNESSES))("%s", { timeout: 60_000 }, (name, harness) => {
  test.each([
    ["a chunked upload", []],
    ["an upload with a Content-Length", [["content-length", String(TOTAL)]]],
  ] as [string, SentRequest["headers"]][])(
    "%s of 32 MiB is refused without being held in memory",
    async (upload, headers) => {
      const send = await served(harness, read);
      const memory = measuring();
      const response = await untilAnswered(() => send({ body: chunks(memory), headers }));
      await lengthOf(response.body);
      memory.sample();
      memory.report(`${name}, ${upload} refused`);
      expect(response.status).toBe(413);
      expect(memory.most).toBeLessThan(MOST_BYTES);
    },
  );

  test("an upload of 32 MiB with a Content-Digest streams to the handler", async () => {
    const send = await served(harness, read, { fingerprint: "content-digest" });
    const digest = "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:";
    const memory = measuring();
    const response = await send({ body: chunks(memory), headers: [["content-digest", digest]] });
    const parts: Uint8Array[] = [];
    for await (const part of response.body) parts.push(part);
    memory.report(`${name}, streamed upload`);
    expect(Buffer.concat(parts).toString()).toBe(`{"length":${TOTAL}}`);
    expect(memory.most).toBeLessThan(MOST_BYTES);
  });

  test("an answer of 32 MiB streams without being held in memory", async () => {
    const memory = measuring();
    const send = await served(harness, async () => ({
      status: 200,
      headers: [["Content-Type", "application/octet-stream"]],
      body: { kind: "stream", chunks: chunks(memory) },
    }));
    const { body } = await send({ body: undefined, headers: [] });
    const length = await lengthOf(body);
    memory.report(`${name}, streamed answer`);
    expect(length).toBe(TOTAL);
    expect(memory.most).toBeLessThan(MOST_BYTES);
  });
});
