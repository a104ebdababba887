/**
 * Tests the examples of `guard.transaction` on a fresh install: the packed package and a query builder in an empty folder,
 * against a real server. `npm run campaign -- builders` runs it; it downloads 350 MB, so `npm test` does not.
 */
import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { scratchFolder } from "../scratch-folder.ts";
import { sharedUrl } from "../services/services.ts";
import { createDatabase } from "../stores/postgres/database.ts";
import { STORY } from "../stores/transaction/story.ts";
import { reportOn } from "./figures.ts";

const ROOT = fileURLToPath(new URL("../../../..", import.meta.url));
const TRIAL = "The examples of transactions on a fresh install";

/** The packages of each example, in the versions that the repository is tested with. */
const BUILDERS = [
  { example: "kysely", packages: ["kysely", "pg"], service: "postgres" },
  { example: "drizzle", packages: ["drizzle-orm", "pg"], service: "postgres" },
  { example: "knex", packages: ["knex", "pg"], service: "postgres" },
  { example: "drizzle-mysql", packages: ["drizzle-orm", "mysql2"], service: "mysql" },
  { example: "knex-mysql", packages: ["knex", "mysql2"], service: "mysql" },
] as const;

interface Manifest {
  readonly dependencies: Record<string, string>;
  readonly devDependencies: Record<string, string>;
}

/** Runs a program to its end, and returns its standard output. */
async function run(program: string, args: readonly string[], cwd: string, more: NodeJS.ProcessEnv = {}) {
  const env = { ...process.env, ...more };
  const { stdout } = await promisify(execFile)(program, args, { cwd, env, timeout: 600_000 });
  return stdout.trim();
}

const readManifest = async (path: string) => JSON.parse(await readFile(path, "utf8")) as Manifest;
const install = (folder: string, ...packages: string[]) =>
  run("npm", ["install", "--no-audit", "--no-fund", "--no-package-lock", ...packages], folder);

async function megabytesIn(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(
    files.map(async (file) => (await stat(join(file.parentPath, file.name))).size),
  );
  return `${Math.round(sizes.reduce((sum, size) => sum + size, 0) / 1e6)} MB installed`;
}

const versionIn = async (folder: string, name: string) =>
  `${name} ${JSON.parse(await readFile(join(folder, "node_modules", name, "package.json"), "utf8")).version}`;

async function reportInstalled(folder: string, names: readonly string[], figures: string): Promise<void> {
  const versions = await Promise.all(names.map((name) => versionIn(folder, name)));
  const size = await megabytesIn(join(folder, "node_modules"));
  reportOn(versions.join(", "), { trial: TRIAL, figures: `${figures}; ${size}` });
}

/**
 * Prisma ends a transaction after five seconds unless it is told otherwise. This program has one of six seconds, and one that
 * is longer than its `transactionMs`. Then it sends a message of an outbox in a transaction that commits, and in one that does not.
 */
const PRISMA_LIMITS = `
import { PrismaPg } from "@prisma/adapter-pg";
import { createGuard } from "nevertwice";
import { createOutbox } from "nevertwice/outbox";
import { postgresStore } from "nevertwice/stores/postgres";
import { prismaDatabase } from "nevertwice/transaction/prisma";
import pg from "pg";
import { PrismaClient } from "./generated/client.js";

const connectionString = process.env.DATABASE_URL as string;
const pool = new pg.Pool({ connectionString });
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString }) });
const store = postgresStore({ client: pool });
await store.migrate();
await pool.query("CREATE TABLE payments (order_id text PRIMARY KEY, amount int NOT NULL)");
const guard = createGuard({ store, purgeEveryMs: 0 });
const pay = (order: string, ms: number, transactionMs: number) =>
  guard.transaction({ operation: "pay", key: order, transactionMs }, prismaDatabase(prisma), async (tx) => {
    await tx.payment.create({ data: { orderId: order, amount: 1 } });
    await new Promise((resolve) => setTimeout(resolve, ms));
    return "paid";
  }).catch(({ code }) => code);
const codes = await Promise.all([pay("slow", 6_000, 30_000), pay("too-slow", 4_000, 1_000)]);
const rows = await prisma.payment.findMany();
const outbox = createOutbox({ client: pool });
await outbox.migrate();
const send = (topic: string, fails: boolean) =>
  prisma.$transaction(async (tx) => {
    await outbox.send(tx, { topic, body: "? $1 ' 😀" });
    if (fails) throw new Error("rolled back");
  });
await send("committed", false);
await send("rolled back", true).catch(() => {});
const { messages } = await outbox.list();
console.log(JSON.stringify([...codes, ...rows.map(({ orderId }) => orderId), ...messages.map(({ topic }) => topic)]));
await outbox.close();
await guard.close();
await prisma.$disconnect();
await pool.end();
`;

const TOLD =
  "the first call writes one row, a second one is replayed, a throw leaves no row, and a duplicate in flight is pending";

describe("the example of a transaction runs on a fresh install", () => {
  let packed: string;
  let tarball: string;

  beforeAll(async () => {
    packed = await mkdtemp(join(tmpdir(), "nevertwice-packed-"));
    const pack = ["pack", "--silent", "--pack-destination", packed];
    const names = await run("npm", pack, join(ROOT, "packages/nevertwice"));
    tarball = join(packed, names.split("\n").at(-1) as string);
  });

  afterAll(() => rm(packed, { recursive: true, force: true }));

  const prepare = async (context: TestContext): Promise<string> => {
    const folder = await scratchFolder(context);
    await writeFile(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
    await cp(join(ROOT, "examples/transaction"), join(folder, "transaction"), { recursive: true });
    return folder;
  };

  test.for(BUILDERS)("of $example", async ({ example, packages, service }, context) => {
    const DATABASE_URL = sharedUrl(context, service);
    const folder = await prepare(context);
    const { devDependencies } = await readManifest(join(ROOT, "package.json"));
    await install(folder, tarball, ...packages.map((name) => `${name}@${devDependencies[name]}`));
    const program = `transaction-${example}.js`;
    await cp(join(ROOT, "examples", program), join(folder, program));
    const told = await run(process.execPath, [program], folder, { DATABASE_URL });
    expect(told.split("\n")).toEqual(STORY);
    await reportInstalled(folder, packages, TOLD);
  });

  test("of Prisma, with its types", async (context) => {
    const DATABASE_URL = sharedUrl(context, "postgres");
    const folder = join(await prepare(context), "prisma");
    await cp(join(ROOT, "examples/prisma"), folder, { recursive: true });
    const manifest = await readManifest(join(folder, "package.json"));
    manifest.dependencies.nevertwice = `file:${tarball}`;
    await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
    await writeFile(join(folder, "limits.ts"), PRISMA_LIMITS);
    await install(folder);
    // `generate` needs no engine, but downloads one unless it is given any executable.
    await run("npm", ["run", "generate"], folder, { PRISMA_SCHEMA_ENGINE_BINARY: process.execPath });
    await run("npm", ["run", "build"], folder);
    const told = await run("npm", ["start", "--silent"], folder, { DATABASE_URL });
    expect(told.split("\n")).toEqual(STORY);
    const limits = await run(process.execPath, ["dist/prisma/limits.js"], folder, {
      DATABASE_URL: await createDatabase(DATABASE_URL),
    });
    expect(JSON.parse(limits)).toEqual(["paid", "unavailable", "slow", "committed"]);
    const names = ["prisma", "@prisma/client", "@prisma/adapter-pg"];
    await reportInstalled(
      folder,
      names,
      `${TOLD}; \`tsc --strict\` accepts it; a transaction of six seconds commits, and one longer than \`transactionMs\` is rolled back; a message is sent in a transaction of Prisma`,
    );
  });
});
