/** Tests that the Upstash store is held to every published case: with each setting of its client, and on a clock that is moved. */
import { afterAll } from "vitest";
import { QUICK_CLAIM } from "../../src/stores/redis-lua.ts";
import { type UpstashClient, upstashStore } from "../../src/stores/upstash.ts";
import { startRedis } from "../services/redis.ts";
import type { Server } from "../services/server.ts";
import { startUpstashDoor, type UpstashDoor } from "../services/upstash-door.ts";
import { CLOCK_CANNOT_GO_BACK, COLLECTS_ITSELF, describeStoreCases, NO_WATCH, SCANS } from "./cases.ts";
import { sharedDoor, upstashClient } from "./upstash/scene.ts";

const openDoor = sharedDoor();

const CLIENTS = {
  "with the client's defaults": { retry: {} },
  "without base64": { responseEncoding: false },
  "without automatic pipelining, sync tokens and connections that stay open": {
    enableAutoPipelining: false,
    readYourWrites: false,
    keepAlive: false,
  },
} as const;

for (const [title, options] of Object.entries(CLIENTS))
  describeStoreCases(title, async () => upstashStore({ client: upstashClient(await openDoor(), options) }), {
    service: "redis",
    without: { ...CLOCK_CANNOT_GO_BACK, ...COLLECTS_ITSELF, ...SCANS, ...NO_WATCH },
  });

/** A client whose server leaves every claim undecided, so that the script CLAIM_MARKED judges all of them. */
function undecided(client: UpstashClient): UpstashClient {
  const exec = (command: [string, ...string[]]) =>
    command[1] === QUICK_CLAIM.sha ? Promise.resolve([0, 0, [0]]) : client.exec(command);
  return Object.assign(Object.create(client), { exec });
}

describeStoreCases(
  "when no claim is decided by the client",
  async () => upstashStore({ client: undecided(upstashClient(await openDoor())) }),
  { service: "redis", without: { ...CLOCK_CANNOT_GO_BACK, ...COLLECTS_ITSELF, ...SCANS, ...NO_WATCH } },
);

let moved: Promise<{ redis: Server; door: UpstashDoor }> | undefined;
afterAll(async () => {
  const started = await moved;
  await started?.door.stop();
  await started?.redis.stop();
});

async function startMoved() {
  const redis = await startRedis({ clock: true });
  return { redis, door: await startUpstashDoor(redis.url) };
}

describeStoreCases(
  "on a server whose clock is moved",
  async () => {
    moved ??= startMoved();
    const { redis, door } = await moved;
    return { store: upstashStore({ client: upstashClient(door) }), advance: redis.stepClock };
  },
  {
    service: "redis",
    oneByOne: true,
    without: { ...COLLECTS_ITSELF, ...SCANS, ...NO_WATCH },
    row: "Upstash, a REST door",
  },
);
