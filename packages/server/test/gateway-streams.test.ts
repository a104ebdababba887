/** Tests that long streams go through the gateway in both directions without being buffered. */
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { expect, test } from "vitest";
import type { GatewayRule } from "../src/gateway/gateway-rules.ts";
import { collectGarbage } from "./garbage.ts";
import { gatewayBefore, serviceOn } from "./gateway/stage.ts";

const CHUNK = Buffer.alloc(65_536, "x");
const CHUNKS = 1_600;
const TOTAL = CHUNK.length * CHUNKS;
/** Client, gateway and service are in this process, so this limits the memory of each of them. */
const BOUND = 48 * 1_048_576;

const RULE: GatewayRule = {
  path: "/*",
  methods: ["POST"],
  required: false,
  scope: "anyone",
  fingerprint: "none",
  onUpstreamLost: "unknown",
};

/** Counts the received bytes and sends the same number back. */
async function echoing(): Promise<number> {
  return serviceOn(async (req, res) => {
    let count = 0;
    for await (const chunk of req) count += chunk.length;
    res.setHeader("X-Count", count);
    for (let i = 0; i < CHUNKS; i++) if (!res.write(CHUNK)) await once(res, "drain");
    res.end();
  });
}

test.each([{ key: undefined }, { key: "k" }])(
  "streams 100 MiB up and 100 MiB down, with the key $key",
  async ({ key }) => {
    const { port } = await gatewayBefore(await echoing(), { routes: [RULE] });
    const before = process.memoryUsage().arrayBuffers;
    let most = 0;
    const grown = () => process.memoryUsage().arrayBuffers - before;
    const watch = async () => {
      // Chunks that were passed on may wait for the garbage collector, which frees their memory in another thread.
      for (let tries = 0; tries < 10 && most < BOUND && grown() > BOUND; tries++) {
        collectGarbage();
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      most = Math.max(most, grown());
    };
    const headers = { "Content-Length": TOTAL, ...(key !== undefined && { "Idempotency-Key": key }) };
    const outgoing = request({ port, method: "POST", path: "/", agent: false, headers });
    const answered = once(outgoing, "response") as Promise<[IncomingMessage]>;
    for (let i = 0; i < CHUNKS; i++) {
      if (!outgoing.write(CHUNK)) await once(outgoing, "drain");
      await watch();
    }
    outgoing.end();
    const [answer] = await answered;
    let count = 0;
    for await (const chunk of answer) {
      count += chunk.length;
      await watch();
    }
    expect([answer.headers["x-count"], count]).toEqual([String(TOTAL), TOTAL]);
    expect(most).toBeLessThan(BOUND);
  },
);

test("a client that stops reading stops the service from sending", async () => {
  let produced = 0;
  const port = await serviceOn(async (_, res) => {
    for (let i = 0; i < CHUNKS; i++) {
      produced += CHUNK.length;
      if (!res.write(CHUNK)) await once(res, "drain");
    }
    res.end();
  });
  const { port: at } = await gatewayBefore(port);
  const outgoing = request({ port: at, path: "/", agent: false }).end();
  const [answer] = (await once(outgoing, "response")) as [IncomingMessage];
  for (let before = -1; before !== produced; ) {
    before = produced;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  expect(produced).toBeLessThan(TOTAL / 2);
  answer.destroy();
});
