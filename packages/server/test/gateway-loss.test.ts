/** A service that is lost: what the client is told, what becomes of the key, and that nothing is sent twice. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import type { GatewayRule } from "../src/gateway-rules.ts";
import { gate, gatewayBefore, read, serviceOn } from "./gateway/stage.ts";

const RULE: GatewayRule = {
  path: "/*",
  methods: ["POST"],
  required: false,
  scope: "anyone",
  onUpstreamLost: "unknown",
};

/** A service whose first run goes wrong, and the fences that it saw. */
async function failingOnce(fail: (req: IncomingMessage, res: ServerResponse) => unknown) {
  const fences: number[] = [];
  const keys: (string | undefined)[] = [];
  const port = await serviceOn(async (req, res) => {
    await read(req).catch(() => "");
    fences.push(Number(req.headers["nevertwice-fence"]));
    keys.push(req.headers["idempotency-key"] as string | undefined);
    if (fences.length === 1) await fail(req, res);
    else res.end(`run ${fences.length}`);
  });
  return { port, fences, keys };
}

describe("CC-11: a service whose connection drops after the request was sent", () => {
  const drop = (req: IncomingMessage) => req.socket.destroy();

  test("is not sent it again, and the client is told that nobody knows", async () => {
    const { port, fences } = await failingOnce(drop);
    const { send } = await gatewayBefore(port);
    const answer = await send({ key: "k" });
    expect([answer.status, answer.code()]).toEqual([502, "upstream-lost"]);
    expect(answer.headers["content-type"]).toBe("application/problem+json");
    expect(fences).toHaveLength(1);
  });

  test("leaves a key that is held for a decision, where the rule says so", async () => {
    const { port, fences } = await failingOnce(drop);
    const { send } = await gatewayBefore(port, { routes: [{ ...RULE, onLapsed: "hold" }] });
    await send({ key: "k" });
    const again = await send({ key: "k" });
    expect([again.status, again.code()]).toEqual([409, "unknown"]);
    expect(fences).toHaveLength(1);
  });

  test("gets the client's own retry under the same key and a higher fence, where keys are taken over", async () => {
    const { port, fences, keys } = await failingOnce(drop);
    const { send } = await gatewayBefore(port);
    await send({ key: '"k"' });
    expect((await send({ key: '"k"' })).text).toBe("run 2");
    expect(keys).toEqual(['"k"', '"k"']);
    expect(fences[1]).toBeGreaterThan(fences[0] as number);
  });

  test("frees the key where the rule says that the service can bear it, even of one that would be held", async () => {
    const { port } = await failingOnce(drop);
    const rule = { ...RULE, onLapsed: "hold", onUpstreamLost: "release" } as const;
    const { send } = await gatewayBefore(port, { routes: [rule] });
    expect((await send({ key: "k" })).code()).toBe("upstream-lost");
    expect((await send({ key: "k" })).text).toBe("run 2");
  });

  test("is not sent a request without a key again either", async () => {
    const { port, fences } = await failingOnce(drop);
    const { send } = await gatewayBefore(port);
    expect((await send()).code()).toBe("upstream-lost");
    expect(fences).toHaveLength(1);
  });
});

test("an answer that breaks off while it is held back is a clean 502, and its half is not kept", async () => {
  const { port } = await failingOnce(async (_, res) => {
    res.writeHead(200, { "Content-Length": 1_000, "Set-Cookie": "a=1" });
    res.write("half");
    await new Promise((resolve) => setTimeout(resolve, 20));
    res.destroy();
  });
  const { send } = await gatewayBefore(port);
  const answer = await send({ key: "k" });
  expect([answer.status, answer.code(), answer.headers["set-cookie"]]).toEqual([
    502,
    "upstream-lost",
    undefined,
  ]);
  expect((await send({ key: "k" })).text).toBe("run 2");
});

test("an answer without a key that breaks off is cut off, not ended", async () => {
  const port = await serviceOn((_, res) => {
    res.writeHead(200, { "Content-Length": 1_000 });
    res.write("half", () => res.destroy());
  });
  const { send } = await gatewayBefore(port);
  await expect(send({ method: "GET" })).rejects.toThrow(/aborted|hang up|ECONNRESET/);
});

test("a service that cannot be reached means that nothing was done, and the key is free", async () => {
  const closed = createServer().listen(0, "127.0.0.1");
  await once(closed, "listening");
  const { port } = closed.address() as { port: number };
  await new Promise((resolve) => void closed.close(resolve));
  const { send } = await gatewayBefore(port, { routes: [{ ...RULE, onLapsed: "hold" }] });
  const answer = await send({ key: "k" });
  expect([answer.status, answer.code(), answer.headers["retry-after"]]).toEqual([
    503,
    "upstream-unreachable",
    "1",
  ]);
  expect((await send()).code()).toBe("upstream-unreachable");
  await serviceOn((_, res) => res.end("there"), port);
  expect((await send({ key: "k" })).text).toBe("there");
});

test("a service that does not answer in time is lost, and its connection closed", async () => {
  let closed: Promise<unknown> | undefined;
  const { port } = await failingOnce((req) => {
    closed = once(req.socket, "close");
  });
  const { send } = await gatewayBefore(port, {
    upstreamTimeout: 150,
    routes: [{ ...RULE, onLapsed: "hold" }],
  });
  expect((await send({ key: "k" })).code()).toBe("upstream-lost");
  await closed;
  expect((await send({ key: "k" })).code()).toBe("unknown");
});

test("a client that goes away takes a request without a key with it, and leaves one that has a key to its end", async () => {
  const gates = [gate(), gate()];
  let gone: Promise<unknown> | undefined;
  let runs = 0;
  const port = await serviceOn(async (req, res) => {
    runs++;
    await read(req);
    if (req.url === "/pass") gone = once(res, "close");
    gates[req.url === "/pass" ? 0 : 1]?.resolve();
    if (req.url !== "/pass") setTimeout(() => res.end(`run ${runs}`), 50);
  });
  const { send } = await gatewayBefore(port);
  for (const [index, sent] of [{ path: "/pass" }, { path: "/keep", key: "k" }].entries()) {
    const client = new AbortController();
    const sending = send({ ...sent, signal: client.signal });
    await gates[index]?.promise;
    client.abort();
    await expect(sending).rejects.toThrow();
  }
  await gone;
  let again = await send({ path: "/keep", key: "k" });
  while (again.status === 409) again = await send({ path: "/keep", key: "k" });
  expect([again.text, again.headers["idempotent-replayed"], runs]).toEqual(["run 2", "true", 2]);
});
