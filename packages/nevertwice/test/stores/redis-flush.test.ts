/** Tests that what the doctor says of a crash of Redis is what a crash of Redis does, also while its disk is slow. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, type TestContext, test, vi } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { find } from "../services/packages.ts";
import { startRedis } from "../services/redis.ts";
import { startFor } from "../services/services.ts";
import { ioredis } from "./redis/clients.ts";
import { claimOf } from "./redis/scene.ts";

const SOURCE = fileURLToPath(new URL("../services/slow-flush.c", import.meta.url));

/** Servers that start after this have a slow disk, until the test ends. */
async function slowDisk({ onTestFinished }: TestContext): Promise<void> {
  const folder = await scratchFolder({ onTestFinished });
  const library = join(folder, "slow-flush.so");
  await promisify(execFile)(find("cc"), ["-Wall", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE]);
  vi.stubEnv("LD_PRELOAD", library);
}

test.for(["always", "everysec", "no"])(
  "with appendfsync %s a kill during a flush loses nothing that the doctor reports as safe",
  { timeout: 60_000 },
  async (appendfsync, context) => {
    await slowDisk(context);
    const settings = { appendonly: "yes", appendfsync };
    const server = await startFor(context, () => startRedis({ settings }));
    const store = redisStore({ client: ioredis(server.url) });
    const { survives } = await diagnose(store);
    const isKept = survives["store-crash"].survives === "yes";
    expect(isKept).toBe(appendfsync !== "everysec");
    // The first one makes Redis start a flush; the others are answered during it.
    const claims = Array.from({ length: 3 }, (_, index) => claimOf(`t${index}`));
    for (const claim of claims) await store.claim(claim);
    await server.kill();
    await server.restart();
    const after = redisStore({ client: ioredis(server.url) });
    const found = await Promise.all(claims.map(({ id }) => after.read(id)));
    if (isKept) expect(found.map((record) => record?.token)).toEqual(claims.map(({ token }) => token));
  },
);
