/** Tests free ports: another process may take a port before the server binds it, and the server still starts. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, test, vi } from "vitest";
import { freePort } from "./ports.ts";
import { startPostgres } from "./postgres.ts";
import { startRedis } from "./redis.ts";
import { startFor } from "./services.ts";

vi.mock("./ports.ts", async (original) => {
  const { freePort } = await original<typeof import("./ports.ts")>();
  return { freePort: vi.fn(freePort) };
});

test.for([
  ["Redis", startRedis],
  ["Postgres", startPostgres],
] as const)("%s is started on another port where its own was taken", async ([, start], context) => {
  const squatter = createServer().listen(0, "127.0.0.1");
  context.onTestFinished(() => void squatter.close());
  await once(squatter, "listening");
  const { port: taken } = squatter.address() as AddressInfo;
  vi.mocked(freePort).mockResolvedValueOnce(taken);
  const server = await startFor(context, () => start());
  expect(server.port).not.toBe(taken);
});
