/**
 * Tests docs/server.md, "Restarting servers one at a time": nginx with the page's settings in front of several servers on one
 * store. While clients send requests without a pause and never repeat one, each server is stopped with SIGTERM and started again.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";
import pg from "pg";
import { createClient } from "redis";
import { describe, expect, type TestContext, test } from "vitest";
import { count, report } from "../../nevertwice/test/scale/figures.ts";
import { sizeOf } from "../../nevertwice/test/scale/sizes.ts";
import { openSubject, POSTGRES, REDIS } from "../../nevertwice/test/scale/subjects.ts";
import { installMissing } from "../../nevertwice/test/services/packages.ts";
import { startFor } from "../../nevertwice/test/services/services.ts";
import { startBalancer } from "./fleet/balancer.ts";
import { startLoad } from "./fleet/load.ts";
import { startFleet } from "./fleet/servers.ts";

const SIZE = sizeOf("fleet-servers");
const TOKEN = "an-access-token-of-at-least-32-characters";
const WARM_UP_MS = 500;
await installMissing(["nginx"]);

/** Counts its effects by the key of the request. */
async function startService({ onTestFinished }: TestContext) {
  const effects = new Map<string, number>();
  const server = createServer((req, res) => {
    req.resume().once("end", async () => {
      const key = String(req.headers["idempotency-key"]);
      effects.set(key, (effects.get(key) ?? 0) + 1);
      await setTimeout(Math.random() * 40);
      res.writeHead(201, { "content-type": "application/json" }).end('{"ok":true}');
    });
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { effects, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** The connections to the database of this test, from all processes. */
async function storeConnections(url: string): Promise<number> {
  if (url.startsWith("postgres")) {
    const client = new pg.Client(url);
    await client.connect();
    const { rows } = await client.query(
      "SELECT count(*)::int AS open FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    await client.end();
    return rows[0].open;
  }
  const client = createClient({ url: url.replace(/\?.*/, "") });
  await client.connect();
  const open = (await client.sendCommand(["CLIENT", "LIST"])).toString().trim().split("\n").length - 1;
  await client.close();
  return open;
}

describe("servers behind nginx", { timeout: 900_000, concurrent: true }, () => {
  test.for([POSTGRES, REDIS])(
    "restart one after another on $name, and no request fails",
    async ({ create }, context) => {
      const store = await create(context);
      const before = await storeConnections(store);
      const { effects, url: upstream } = await startService(context);
      const fleet = await startFor(context, async () => {
        const started = await startFleet({
          count: SIZE.servers,
          flags: { store, upstream, "gateway-scope": "anyone", "drain-delay": `${SIZE.drainDelayMs}ms` },
          env: { NEVERTWICE_SERVER_ACCESS_TOKEN: TOKEN },
        });
        return { ...started, stop: async () => started.end() };
      });
      const balancer = await startFor(context, async () => {
        const started = await startBalancer(fleet.ports);
        return { ...started, stop: () => started.server.stop() };
      });
      const name = (client: number, turn: number) => `${client}-${turn}`;
      const orders = startLoad(SIZE.clients, (client, turn) => ({
        url: `${balancer.gatewayUrl}/orders`,
        headers: { "idempotency-key": `"${name(client, turn)}"` },
        body: '{"item":"book"}',
      }));
      const events = startLoad(SIZE.clients, (client, turn) => ({
        url: `${balancer.apiUrl}/v1/events`,
        headers: { authorization: `Bearer ${TOKEN}` },
        body: JSON.stringify({ source: "shop", id: name(client, turn) }),
      }));
      let restarts = 0;
      let open = 0;
      try {
        await setTimeout(WARM_UP_MS);
        open = (await storeConnections(store)) - before;
        for (let round = 0; round < SIZE.rounds; round++)
          for (let index = 0; index < SIZE.servers; index++) {
            await fleet.restart(index);
            restarts++;
            // The server that has started answers requests before the next one stops.
            const isLast = restarts === SIZE.rounds * SIZE.servers;
            await setTimeout(isLast ? WARM_UP_MS : SIZE.pauseMs);
          }
      } finally {
        await Promise.all([orders.stop(), events.stop()]);
      }
      const failures = { ...orders.count.failures, ...events.count.failures };
      expect(Object.entries(failures).map(([what, times]) => `${times} times ${what}`)).toEqual([]);
      // A trial in which nothing happened proves nothing.
      expect(restarts).toBe(SIZE.rounds * SIZE.servers);
      expect(effects.size).toBe(orders.count.requests);
      expect([...effects.values()].filter((times) => times !== 1)).toEqual([]);
      expect(events.count.requests).toBeGreaterThan(restarts);
      await report(await openSubject(context, store), {
        trial: "Servers behind nginx, restarted one at a time",
        figures: `${SIZE.servers} servers, ${restarts} restarts, ${count(orders.count.requests)} requests through the gateways and ${count(events.count.requests)} to the APIs, 0 failures, one effect for each key; ${(open / SIZE.servers).toFixed(1)} connections to the store for each server`,
      });
    },
  );
});
