/** Tests that Node sends a head with an Expect header at once when it is written. It must not bypass the capture. */
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { idempotency } from "../../src/http/node.ts";
import { memoryStore } from "../../src/stores/memory.ts";

test.each([
  ["set before", false],
  ["given with the head", true],
])("an answer with an Expect header that was %s is held back like any other", async (_, isGiven) => {
  const layer = idempotency(createGuard({ store: memoryStore() }), { scope: "anyone" });
  const listener = layer(async (_req, res) => {
    if (!isGiven) res.setHeader("Expect", "100-continue");
    res.writeHead(201, isGiven ? { Expect: "100-continue", "X-A": "1" } : { "X-A": "1" });
    await new Promise((resolve) => setImmediate(resolve));
    throw new Error("it failed after its head");
  });
  const server = createServer((req, res) => {
    listener(req, res).catch(() => res.writeHead(500).end("failed"));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const lines = [
    "POST / HTTP/1.1",
    "Host: localhost",
    "Connection: close",
    "Content-Length: 0",
    "Idempotency-Key: k",
  ];
  const socket = connect(port, "127.0.0.1", () => socket.write(`${lines.join("\r\n")}\r\n\r\n`));
  let said = "";
  for await (const chunk of socket) said += chunk;
  expect(said).toMatch(/^HTTP\/1\.1 500 .*failed/s);
  expect(said.match(/HTTP\/1\.1/g)).toHaveLength(1);
});
