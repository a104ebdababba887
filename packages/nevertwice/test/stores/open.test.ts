/** `openStore` needs only a URL. The error about a wrong URL does not contain its password. */
import { execFile } from "node:child_process";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
// The build: a store on a SQLite file starts a thread, which Node 20 cannot start from TypeScript.
import { openStore } from "../../dist/stores/open.js";
import { createGuard } from "../../src/index.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { type ServiceName, sharedUrl } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";

const DIST = new URL("../../dist", import.meta.url).pathname;

async function temporaryFolder(): Promise<string> {
  const folder = await scratchFolder();
  return folder;
}

/** Runs work once over two guards on two stores of this URL, and closes them with their clients. */
async function runsOnceOn(url: string, isShared = true): Promise<void> {
  const request = { operation: "open", key: `${Math.random()}` };
  let runs = 0;
  for (let opened = 0; opened < 2; opened++) {
    const store = await openStore(url);
    const guard = createGuard({ store, namespace: "open-test", purgeEveryMs: 0 });
    await guard.ready();
    expect(await guard.run(request, () => ++runs)).toBe(isShared ? 1 : runs);
    await guard.close();
    await store.close();
    await expect(store.claim({ ...CLAIM, id: request.key })).rejects.toThrow();
  }
  expect(runs).toBe(isShared ? 1 : 2);
}

const CLAIM = {
  parts: { namespace: "n", scope: "s", operation: "o", key: "k" },
  token: "token",
  leaseMs: 1_000,
  retentionMs: 1_000,
  hold: false,
};

test("memory: opens a new memory store each time", async () => {
  const [one, other] = [await openStore("memory:"), await openStore("memory:")];
  expect(await one.claim({ ...CLAIM, id: "a" })).toMatchObject({ status: "new" });
  expect(await other.claim({ ...CLAIM, id: "a" })).toMatchObject({ status: "new" });
});

test("sqlite: opens a file, by a relative or an absolute path, with its settings in the URL", async () => {
  const folder = await temporaryFolder();
  await runsOnceOn(`sqlite:${folder}/with%20space.db`);
  await runsOnceOn(`sqlite://${folder}/absolute.db`);
  await runsOnceOn(`sqlite:${folder}/relaxed.db?synchronous=normal&exclusive=true`);
  const relaxed = await openStore(`sqlite:${folder}/relaxed.db?synchronous=normal`);
  expect((await relaxed.settings?.())?.survives["power-loss"]).toMatchObject({ survives: "no" });
  await relaxed.close();
});

const SERVED: readonly (readonly [string, ServiceName, (url: string) => string])[] = [
  ["postgres:// migrates and opens", "postgres", (url) => url],
  ["postgresql:// is the same", "postgres", (url) => url.replace(/^postgres(ql)?:/, "postgresql:")],
  ["postgres:// with prepare=false opens behind PgBouncer", "pgbouncer", (url) => `${url}?prepare=false`],
  ["redis:// opens", "redis", (url) => url],
  ["redis:// opens with a prefix", "redis", (url) => `${url}?prefix=open:`],
  ["redis+cluster:// opens", "redisCluster", (url) => url.replace(/^redis(\+cluster)?:/, "redis+cluster:")],
  ["mysql:// migrates and opens", "mysql", (url) => url],
];

for (const [title, service, toUrl] of SERVED) {
  test(title, async (context) => {
    await runsOnceOn(toUrl(sharedUrl(context, service)));
  });
}

test("dynamodb://region/table opens", async (context) => {
  const endpoint = sharedUrl(context, "dynamodb");
  const table = await newTable(clientOf(endpoint));
  vi.stubEnv("AWS_ACCESS_KEY_ID", "test");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "test");
  await runsOnceOn(`dynamodb://eu-west-1/${table}?endpoint=${encodeURIComponent(endpoint)}`);
});

test.each([
  ["", "the store's URL"],
  ["nonsense", /not a store URL.*memory:.*dynamodb:/],
  ["mongodb://user:secret@host/db", /not a store URL/],
  ["sqlite:", /names no file/],
  ["sqlite:./a.db?synchronous=off", /synchronous=off; it must be full or normal/],
  ["sqlite:./a.db?nosuch=1", /names no file|nosuch/],
  ["dynamodb://eu-west-1", /names no table/],
  ["redis+cluster://", /not the URL of a cluster/],
  ["postgres://user:secret@127.0.0.1:1/db?prepare=maybe", /prepare=maybe/],
  ["postgres://user:p@secret/w@127.0.0.1:1/db?prepare=maybe", /prepare=maybe/],
  ["postgres://user:a/secret?b@127.0.0.1:1/db?prepare=maybe", /is malformed/],
  ["user:secret@host", /not a store URL/],
  ["mysql://root:secret@host:port/x", /is malformed/],
  ["redis+cluster://user:secret@", /not the URL of a cluster/],
])("%j is refused with the reason, and the message never contains its password", async (url, why) => {
  const error = await openStore(url).catch((thrown) => thrown);
  expect(error).toMatchObject({ code: "options-invalid" });
  expect(error.message).toMatch(why);
  expect(error.message).not.toContain("secret");
});

test("an unknown option is refused", async () => {
  const options = { migrat: false } as object;
  await expect(openStore("memory:", options)).rejects.toMatchObject({ code: "options-invalid" });
});

test("an unreachable server fails when its tables are migrated, and no connection stays open", async () => {
  await expect(openStore("postgres://user:secret@127.0.0.1:1/db")).rejects.toMatchObject({
    code: "unavailable",
    message: expect.not.stringContaining("secret"),
  });
});

test.each([
  ["postgres://h/db", "npm install pg"],
  ["redis://h", "npm install ioredis"],
  ["redis+cluster://h", "npm install ioredis"],
  ["mysql://h/db", "npm install mysql2"],
  ["dynamodb://eu-west-1/t", "npm install @aws-sdk/client-dynamodb @aws-sdk/lib-dynamodb"],
])("%s without its driver throws driver-missing and names the package to install", async (url, install) => {
  const folder = await temporaryFolder();
  await cp(DIST, join(folder, "dist"), { recursive: true });
  await cp(join(DIST, "../package.json"), join(folder, "package.json"));
  const program = `import { openStore } from "./dist/stores/open.js";
    await openStore(${JSON.stringify(url)}).catch(({ code, message }) => console.log(JSON.stringify({ code, message })));`;
  const args = ["--input-type=module", "--eval", program];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder });
  expect(JSON.parse(stdout)).toMatchObject({
    code: "driver-missing",
    message: expect.stringContaining(install),
  });
});
