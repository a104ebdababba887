/** Tests that what a store in workerd has answered is there after workerd was killed, and that two Workers share it. Needs the build. */
import { randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { claimOf } from "../stores/claim-request.ts";
import { remoteStore } from "./remote-store.ts";
import { BINDINGS, type Runtime, startRuntime, workerCode } from "./runtime.ts";

function persistentFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-workerd-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The processes of workerd that this process started. */
function workerds(): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const [, state, parent] =
          /^\d+ \(workerd\) (\S) (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8")) ?? [];
        return Number(parent) === process.pid && state !== "Z";
      } catch {
        return false;
      }
    });
}

/** Starts workerd, and says how to kill it as a crash would. */
async function startKillable(options: object): Promise<Runtime & { kill(): Promise<void> }> {
  const before = workerds();
  const runtime = await startRuntime("store-calls.ts", [], options);
  await runtime.miniflare.ready;
  const [pid, ...others] = workerds().filter((each) => !before.includes(each));
  if (pid === undefined || others.length > 0) throw new Error("there is not exactly one new workerd");
  return {
    ...runtime,
    async kill() {
      process.kill(pid, "SIGKILL");
      await expect.poll(workerds).not.toContain(pid);
      await runtime.stop();
    },
  };
}

const SHOP = { name: "shop", shards: 2 };

const KINDS = [
  {
    kind: "Durable Objects",
    options: SHOP,
    persist: (folder: string) => ({ durableObjects: BINDINGS.durableObjects, durableObjectsPersist: folder }),
  },
  {
    kind: "D1",
    options: { binding: "DB" },
    persist: (folder: string) => ({ d1Databases: BINDINGS.d1Databases, d1Persist: folder }),
  },
];

test.each(KINDS)(
  "on $kind, what was answered is there after workerd was killed",
  async ({ kind, options, persist }) => {
    const folder = persistentFolder();
    const completed = claimOf("completed");
    const pending = claimOf("pending");
    const before = await startKillable(persist(folder));
    const store = remoteStore(before, options);
    if (kind === "D1") await store.migrate();
    await store.claim(completed);
    await store.complete({ id: completed.id, token: completed.token, outcome: "done", retentionMs: 60_000 });
    const claimed = await store.claim(pending);
    await before.kill();

    const after = await startKillable(persist(folder));
    onTestFinished(() => after.stop());
    const reopened = remoteStore(after, options);
    expect(await reopened.claim(claimOf("completed"))).toEqual({ status: "completed", outcome: "done" });
    expect(await reopened.claim(claimOf("pending"))).toMatchObject({ status: "pending" });
    expect(await reopened.claim(pending)).toEqual(claimed);
  },
);

test("objects still know their number after workerd was killed", async () => {
  const folder = persistentFolder();
  const options = { durableObjects: BINDINGS.durableObjects, durableObjectsPersist: folder };
  const before = await startKillable(options);
  await remoteStore(before, SHOP).claim(claimOf("first"));
  await before.kill();
  const after = await startKillable(options);
  onTestFinished(() => after.stop());
  const other = remoteStore(after, { ...SHOP, shards: 3 });
  await expect(other.claim(claimOf("other"))).rejects.toThrow(/spread over 2 objects/);
});

test("two Workers share the records in the same objects", async () => {
  const script = await workerCode("store-calls.ts");
  const worker = { modules: true, script, compatibilityDate: "2025-05-05" };
  const runtime = await startRuntime("store-calls.ts", [], {
    workers: [
      { ...worker, name: "one", ...BINDINGS },
      {
        ...worker,
        name: "two",
        durableObjects: { NEVERTWICE: { className: "TestObject", scriptName: "one", useSQLite: true } },
      },
    ],
  });
  onTestFinished(() => runtime.stop());
  const [one, two] = await Promise.all(
    ["one", "two"].map(async (name) => {
      // The types of miniflare name a type of a package that is not installed.
      const fetcher = (await runtime.miniflare.getWorker(name)) as unknown as { fetch: typeof fetch };
      const post = async (path: string, body: object) => {
        const response = await fetcher.fetch(`http://worker${path}`, {
          method: "POST",
          body: JSON.stringify(body),
        });
        return (await response.json()) as never;
      };
      return remoteStore({ post });
    }),
  );
  const key = randomUUID();
  const claims = Array.from({ length: 20 }, (_, number) =>
    (number % 2 === 0 ? one : two)?.claim(claimOf(key)),
  );
  const answers = await Promise.all(claims);
  expect(answers.filter((answer) => answer?.status === "new")).toHaveLength(1);
  expect(answers.filter((answer) => answer?.status === "pending")).toHaveLength(19);
});
