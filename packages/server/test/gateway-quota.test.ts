/** Tests how much clients can store through the gateway. */
import { expect, test } from "vitest";
import { REPLAYED } from "../../nevertwice/test/http/replayed-header.ts";
import type { GatewayRule } from "../src/gateway/gateway-rules.ts";
import { gatewayBefore, read, type Sent, serviceOn } from "./gateway/stage.ts";

const rule = (more: Partial<GatewayRule> = {}): GatewayRule => ({
  path: "/*",
  methods: ["POST"],
  required: false,
  scope: { header: "Authorization" },
  onUpstreamLost: "unknown",
  ...more,
});

/** A service that answers with this status and this many bytes. */
const answering = (status: number, bytes: number) =>
  serviceOn(async (req, res) => {
    await read(req);
    res.writeHead(status).end("x".repeat(bytes));
  });

const as = (owner: string, key: string): Sent => ({ key, headers: { Authorization: owner } });

/** The callers' keys with an outcome, without the records of the quota. */
async function keptIn({ store }: Awaited<ReturnType<typeof gatewayBefore>>): Promise<number> {
  const page = await store.list?.({ namespace: "default", state: "completed", limit: 1_000 });
  return page?.records.filter(({ parts }) => parts?.operation.startsWith("POST ")).length ?? -1;
}

test.each([404, 405])("a response %i is not stored", async (status) => {
  const stage = await gatewayBefore(await answering(status, 10), { routes: [rule()] });
  for (let i = 0; i < 20; i++) expect((await stage.send(as(`stranger ${i}`, `k${i}`))).status).toBe(status);
  expect(await keptIn(stage)).toBe(0);
});

test("a rule can store a 404", async () => {
  const stage = await gatewayBefore(await answering(404, 10), { routes: [rule({ keep: { 404: "keep" } })] });
  await stage.send(as("me", "k"));
  expect(await keptIn(stage)).toBe(1);
  expect((await stage.send(as("me", "k"))).headers[REPLAYED]).toBe("true");
});

test("the keys of one owner are limited, without effect on others", async () => {
  const { send } = await gatewayBefore(await answering(200, 10), { routes: [rule()], quotaKeys: 3 });
  const statuses: number[] = [];
  for (let i = 0; i < 5; i++) statuses.push((await send(as("greedy", `k${i}`))).status);
  expect(statuses).toEqual([200, 200, 200, 429, 429]);
  expect((await send(as("other", "k"))).status).toBe(200);
  expect((await send(as("greedy", "k0"))).headers[REPLAYED]).toBe("true");
});

test("the bytes of stored responses of one owner are limited", async () => {
  const { send } = await gatewayBefore(await answering(200, 20_000), {
    routes: [rule()],
    quotaBytes: 50_000,
  });
  const statuses: number[] = [];
  for (let i = 0; i < 6; i++) statuses.push((await send(as("greedy", `k${i}`))).status);
  expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(4);
  expect(statuses.at(-1)).toBe(429);
  expect((await send(as("other", "k"))).status).toBe(200);
});

test("a client that invents owners is stopped by the total quota of all routes", async () => {
  const routes = [rule({ path: "/a" }), rule({ path: "/b" })];
  const { send } = await gatewayBefore(await answering(200, 10), { routes, quotaTotalKeys: 6 });
  const statuses: number[] = [];
  for (let i = 0; i < 10; i++)
    statuses.push((await send({ ...as(`invented ${i}`, "k"), path: i % 2 === 0 ? "/a" : "/b" })).status);
  expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429, 429, 429, 429]);
});
