/** Tests lists of a cluster while its clients have lost connections: a node that is left out has records too. */
import { expect, test, vi } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { everyPage } from "../every-page.ts";
import { startRedisCluster } from "../services/redis-cluster.ts";
import { startFor } from "../services/services.ts";
import { ioredis, ioredisCluster, nodeRedisCluster } from "./redis/clients.ts";

const KEYS = 60;
const WAIT_MS = 30_000;

test.for([
  ["ioredis", async (url: string) => ioredisCluster(url)],
  ["node-redis", nodeRedisCluster],
] as const)(
  "a list through %s has the records of every node after lost connections",
  async ([, connect], context) => {
    const { url, nodes } = await startFor(context, () => startRedisCluster());
    const guard = createGuard({ store: redisStore({ client: await connect(url) }), purgeEveryMs: 0 });
    context.onTestFinished(async () => void (await guard.close()));
    for (let i = 0; i < KEYS; i++) await guard.run({ operation: "order", key: `order-${i}` }, () => i);
    const admins = nodes.map((node) => ioredis(node.url));
    for (const admin of [...admins, undefined]) {
      const lost = admin === undefined ? admins : [admin];
      await Promise.all(lost.map((one) => one.call("CLIENT", "KILL", "TYPE", "normal")));
      // A command that meets the lost connection may fail. What answers must be whole.
      const { records } = await vi.waitFor(() => everyPage(guard.list), WAIT_MS);
      expect(records).toHaveLength(KEYS);
    }
  },
);
