/** Tests locks on real servers: clients and processes of their own, and holders that are killed or cut off. Needs the build. */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, type TestContext, test } from "vitest";
import type { ErrorCode } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import type { Lock } from "../../src/functions/exclusive.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { openStore } from "../../src/stores/open.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { deferred } from "../deferred.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { sharedUrl } from "../services/services.ts";
import { createDatabase } from "./postgres/database.ts";

const CHILD = fileURLToPath(new URL("exclusive/child.js", import.meta.url));
const BUILD = new URL("../../dist/", import.meta.url).href;

const failure = (code: ErrorCode) => expect.objectContaining({ code });

/** Where the locks of a test are: in a separate database, or under separate names. */
const SERVERS: Readonly<Record<string, (context: TestContext) => Promise<string>>> = {
  Redis: async (context) => {
    const url = sharedUrl(context, "redis");
    return `${url}${url.includes("?") ? "&" : "?"}prefix=exclusive:${randomUUID()}:`;
  },
  Postgres: async (context) => {
    const url = await createDatabase(sharedUrl(context, "postgres"));
    await (await openStore(url)).close();
    return url;
  },
};

/** A guard with its own connection. */
async function connect(
  context: TestContext,
  url: string,
  between: (store: Store) => Store = (store) => store,
): Promise<Guard> {
  const store = await openStore(url, { migrate: false });
  const guard = createGuard({ store: between(store), purgeEveryMs: 0, drainMs: 0 });
  context.onTestFinished(async () => {
    await guard.close();
    await store.close();
  });
  await guard.ready();
  return guard;
}

function start(context: TestContext, act: string, url: string, ...rest: readonly string[]) {
  const child = spawn(process.execPath, [CHILD, act, BUILD, url, ...rest], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  context.onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    async next<Said>(): Promise<Said> {
      const { value, done } = await lines.next();
      if (done) throw new Error("the process ended");
      return JSON.parse(value);
    },
  };
}

/** A critical section that lasts until the test ends it. */
function hold(guard: Guard, name: string, leaseMs = 60_000) {
  const { promise: entered, resolve: enter } = deferred<Lock>();
  const { promise: held, resolve: leave } = deferred<string>();
  const work = (lock: Lock) => {
    enter(lock);
    return held;
  };
  const ended = guard.exclusive(name, work, { leaseMs });
  ended.catch(() => {});
  return { entered: Promise.race([entered, ended as Promise<never>]), ended, leave: (v: string) => leave(v) };
}

const fired = (signal: AbortSignal) => (signal.aborted ? undefined : once(signal, "abort"));

const isGrowing = (fences: readonly number[]) =>
  fences.every((fence, i) => i === 0 || fence > (fences[i - 1] as number));

for (const [server, urlFor] of Object.entries(SERVERS)) {
  describe.concurrent(`on ${server}`, () => {
    test("clients never overlap, wait for each other, and see growing fences", async (context) => {
      const url = await urlFor(context);
      const guards = await Promise.all(Array.from({ length: 4 }, () => connect(context, url)));
      const fences: number[] = [];
      let inside = 0;
      const section = async ({ fence }: Lock) => {
        expect(++inside).toBe(1);
        fences.push(fence);
        await sleep(fences.length % 3);
        inside--;
      };
      // Two callers a client: callers of one client share a watch.
      const callers = [...guards, ...guards].map(async (guard) => {
        for (let i = 0; i < 8; i++) await guard.exclusive("shared", section, { waitMs: 50_000 });
      });
      await Promise.all(callers);
      expect(fences).toHaveLength(64);
      expect(isGrowing(fences)).toBe(true);
    });

    test("processes never overlap, and see growing fences", async (context) => {
      const url = await urlFor(context);
      const folder = await scratchFolder(context);
      const processes = Array.from({ length: 3 }, () => start(context, "contend", url, folder, "12"));
      for (const { next } of processes) expect(await next()).toBe("done");
      const fences = (await readFile(`${folder}/fences`, "utf8")).trim().split("\n").map(Number);
      expect(fences).toHaveLength(36);
      expect(isGrowing(fences)).toBe(true);
    });

    test("a release wakes a waiter long before its next poll", async (context) => {
      const url = await urlFor(context);
      const [one, other] = [await connect(context, url), await connect(context, url)];
      const delays: number[] = [];
      // A busy machine may be slow once or twice.
      for (let round = 0; round < 5 && !delays.some((ms) => ms < 500); round++) {
        const first = hold(one, "woken");
        await first.entered;
        const second = other.exclusive("woken", () => performance.now(), { waitMs: 15_000 });
        await sleep(200);
        const leftAt = performance.now();
        first.leave("left");
        expect(await first.ended).toBe("left");
        delays.push((await second) - leftAt);
      }
      expect(Math.min(...delays)).toBeLessThan(500);
    });

    test("a lock is free as soon as its work ends, whether it succeeds or fails", async (context) => {
      const url = await urlFor(context);
      const [one, other] = [await connect(context, url), await connect(context, url)];
      const error = new Error("no paper");
      await expect(one.exclusive("freed", () => Promise.reject(error))).rejects.toBe(error);
      expect(await other.exclusive("freed", () => 1, { waitMs: 0 })).toBe(1);
      expect(await one.exclusive("freed", () => 2, { waitMs: 0 })).toBe(2);
      const nested = one.exclusive("freed", () => other.exclusive("freed", () => 3, { waitMs: 0 }));
      await expect(nested).rejects.toEqual(failure("pending"));
    });

    test("a killed holder keeps the others out until its lease ends, and no longer", async (context) => {
      const url = await urlFor(context);
      const guard = await connect(context, url);
      const { child, next } = start(context, "hold", url);
      const fence = await next<number>();
      child.kill("SIGKILL");
      await once(child, "exit");
      await expect(guard.exclusive("killed", () => 1, { waitMs: 0 })).rejects.toEqual(failure("pending"));
      expect(await guard.exclusive("killed", (lock) => lock.fence, { waitMs: 15_000 })).toBeGreaterThan(
        fence,
      );
    });

    test("a disconnected holder notices it, is overtaken with a higher fence, and cannot release its successor's lock", async (context) => {
      const url = await urlFor(context);
      const cut = { isCut: false };
      const old = await connect(context, url, (store) => {
        const faulty = faultyStore(store);
        return {
          ...faulty,
          renew: (request) => {
            if (cut.isCut) faulty.plan("renew", "hang");
            return faulty.renew(request);
          },
        };
      });
      const fresh = await connect(context, url);
      const first = hold(old, "cut", 4_000);
      const lost = await first.entered;
      expect([lost.owned(), await lost.extend()]).toEqual([true, true]);
      cut.isCut = true;
      await fired(lost.signal);
      expect(lost.owned()).toBe(false);
      const second = hold(fresh, "cut");
      const lock = await second.entered;
      expect(lock.fence).toBeGreaterThan(lost.fence);
      cut.isCut = false;
      expect(await lost.extend()).toBe(false);
      first.leave("too late");
      await expect(first.ended).rejects.toEqual(failure("lease-lost"));
      await expect(old.exclusive("cut", () => 1, { waitMs: 0 })).rejects.toEqual(failure("pending"));
      expect(await lock.extend()).toBe(true);
      second.leave("fine");
      expect(await second.ended).toBe("fine");
    });
  });
}
