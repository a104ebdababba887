/** A master and its replica, with the faults that tests cause. */
import { expect, type TestContext, vi } from "vitest";
import { startProxy } from "../../services/proxy.ts";
import { startRedis } from "../../services/redis.ts";
import type { Server } from "../../services/server.ts";
import { startFor } from "../../services/services.ts";
import { ioredis } from "./clients.ts";

export interface Pair {
  readonly master: Server;
  readonly replica: Server;
  /** The replica receives nothing from the master, and neither side is informed. */
  cutOff(): void;
  /** The replica receives what it missed. */
  rejoin(): void;
  /** Stops the master for good, and promotes the replica. */
  failOver(): Promise<void>;
}

const SYNC_MS = 10_000;

export async function startPair(context: TestContext): Promise<Pair> {
  const master = await startFor(context, () => startRedis({ settings: { "repl-diskless-sync-delay": 0 } }));
  const replica = await startFor(context, () => startRedis());
  const between = await startFor(context, () => startProxy(master.url));
  const follower = ioredis(replica.url);
  await follower.replicaof("127.0.0.1", between.port);
  await vi.waitFor(
    async () => expect(await follower.info("replication")).toContain("master_link_status:up"),
    SYNC_MS,
  );
  return {
    master,
    replica,
    cutOff: () => between.hang(),
    rejoin: () => between.heal(),
    async failOver() {
      await master.kill();
      await follower.replicaof("NO", "ONE");
    },
  };
}
