/** Tests failures of the service: what the client gets, what happens to the key, and that nothing is sent twice. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { REPLAYED } from "../../nevertwice/test/http/replayed-header.ts";
import type { GatewayRule } from "../src/gateway/gateway-rules.ts";
import { gate, gatewayBefore, read, serviceOn } from "./gateway/stage.ts";

const RULE: GatewayRule = {
  path: "/*",
  methods: ["POST"],
  required: false,
  scope: "anyone",
  onUpstreamLost: "unknown",
};

/** A service whose first run fails, and the fences that it got. */
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

  test("gets it only once, and the client gets upstream-lost", async () => {
    const { port, fences } = await failingOnce(drop);
    const { send } = await gatewayBefore(port);
    const answer = await send({ key: "k" });
    expect([answer.status, answer.code()]).toEqual([502, "upstream-lost"]);
    expect(answer.headers["x-should-retry"]).toBe("false");
    expect(answer.headers["content-type"]).toBe("application/problem+json");
    expect(fences).toHaveLength(1);
  });

  test("leaves a key that is held for a decision", async () => {
    const { port, fences } = await failingOnce(drop);
    const { send } = await gatewayBefore(port);
    await send({ key: "k" });
    const again = await send({ key: "k" });
    expect([again.status, again.code()]).toEqual([409, "unknown"]);
    expect(fences).toHaveLength(1);
  });

  test("gets the client's retry with the same key and a higher fence if keys are taken over", async () => {
    const { port, fences, keys } = await failingOnce(drop);
    const { send } = await gatewayBefore(port, { routes: [{ ...RULE, onLapsed: "takeover" }] });
    expect((await send({ key: '"k"' })).headers["x-should-retry"]).toBe("true");
    expect((await send({ key: '"k"' })).text).toBe("run 2");
    expect(keys).toEqual(['"k"', '"k"']);
    expect(fences[1]).toBeGreaterThan(fences[0] as number);
  });

  test("frees the key if the rule releases it, even for a rule that holds", async () => {
    const { port } = await failingOnce(drop);
    const rule = { ...RULE, onLapsed: "hold", onUpstreamLost: "release" } as const;
    const { send } = await gatewayBefore(port, { routes: [rule] });
    expect((await send({ key: "k" })).code()).toBe("upstream-lost");
    expect((await send({ key: "k" })).text).toBe("run 2");
  });

  test("gets a request without a key only once, too, and its client a status that nothing repeats", async () => {
    const { port, fences } = await failingOnce(drop);
    const { send } = await gatewayBefore(port);
    const answer = await send();
    expect([answer.status, answer.code(), answer.headers["x-should-retry"]]).toEqual([
      422,
      "upstream-lost",
      "false",
    ]);
    expect(JSON.parse(answer.text)).toMatchObject({ status: 422, retryable: false });
    expect(fences).toHaveLength(1);
  });

  test("may be asked again for a read, and not for a method that no rule names", async () => {
    const { send } = await gatewayBefore(await serviceOn(drop));
    const told = async (method: string) => {
      const { status, headers } = await send({ method });
      return [status, headers["x-should-retry"]];
    };
    expect(await told("GET")).toEqual([502, "true"]);
    expect(await told("DELETE")).toEqual([502, "false"]);
  });
});

test("an incomplete response that is held back becomes a 502 and is not stored", async () => {
  const { port } = await failingOnce(async (_, res) => {
    res.writeHead(200, { "Content-Length": 1_000, "Set-Cookie": "a=1" });
    res.write("half");
    await new Promise((resolve) => setTimeout(resolve, 20));
    res.destroy();
  });
  const { send } = await gatewayBefore(port, { routes: [{ ...RULE, onLapsed: "takeover" }] });
  const answer = await send({ key: "k" });
  expect([answer.status, answer.code(), answer.headers["set-cookie"]]).toEqual([
    502,
    "upstream-lost",
    undefined,
  ]);
  expect((await send({ key: "k" })).text).toBe("run 2");
});

test("an incomplete response without a key ends with a closed connection", async () => {
  const port = await serviceOn((_, res) => {
    res.writeHead(200, { "Content-Length": 1_000 });
    res.write("half", () => res.destroy());
  });
  const { send } = await gatewayBefore(port);
  await expect(send({ method: "GET" })).rejects.toThrow(/aborted|hang up|ECONNRESET/);
});

test("an unreachable service means that nothing was done, and frees the key", async () => {
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

test("a service that does not respond in time gives upstream-lost, and its connection is closed", async () => {
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

test("a client that disconnects cancels a request without a key, and not one with a key", async () => {
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
  expect([again.text, again.headers[REPLAYED], runs]).toEqual(["run 2", "true", 2]);
});
