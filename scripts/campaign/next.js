/**
 * Runs the example for Next as its readers would: installs the packed package and a real Next in a temporary folder,
 * builds the app, and lets two processes of it share one store.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ROOT, run } from "../command.js";

const CALLERS = 40;
const STARTED_WITHIN_MS = 60_000;

/** @typedef {{ key?: string, amount?: number, as?: string, path?: string }} Payment */

/** @returns {Promise<boolean>} whether every check passed */
export async function campaignOfNext() {
  const folder = await mkdtemp(join(tmpdir(), "nevertwice-next-"));
  try {
    await install(folder);
    const servers = await Promise.all([start(folder), start(folder)]);
    try {
      await exchanges(
        servers.map(({ url }) => url),
        join(folder, "ledger.jsonl"),
      );
    } finally {
      await Promise.all(servers.map(({ stop }) => stop()));
    }
    return true;
  } catch (error) {
    console.log(`FAILED  ${error instanceof Error ? error.message : error}`);
    return false;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** @param {string} folder */
async function install(folder) {
  await cp(`${ROOT}examples/next`, folder, { recursive: true });
  const packed = await must("npm", ["pack", "--silent", "--pack-destination", folder], {
    cwd: `${ROOT}packages/nevertwice`,
  });
  const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  manifest.dependencies.nevertwice = `file:./${packed.trim().split("\n").at(-1)}`;
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  console.log(`Installing next ${manifest.dependencies.next}, then building the app.`);
  await must("npm", ["install", "--no-audit", "--no-fund", "--no-package-lock"], { cwd: folder });
  await must("npm", ["run", "build"], { cwd: folder });
  said("the app builds, types included");
}

/**
 * @param {string} program
 * @param {readonly string[]} args
 * @param {{ cwd: string }} options
 */
async function must(program, args, options) {
  const env = { ...process.env, NEXT_TELEMETRY_DISABLED: "1" };
  const { code, stdout, output } = await run(program, args, { ...options, env });
  if (code !== 0) throw new Error(`${program} ${args.join(" ")}\n${output}`);
  return stdout;
}

/** @param {string} folder */
async function start(folder) {
  const port = await freePort();
  const next = join(folder, "node_modules/next/dist/bin/next");
  const child = spawn(process.execPath, [next, "start", "-p", String(port), "-H", "127.0.0.1"], {
    cwd: folder,
    env: { ...process.env, NODE_ENV: "production", NEXT_TELEMETRY_DISABLED: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
  const url = `http://127.0.0.1:${port}`;
  const until = Date.now() + STARTED_WITHIN_MS;
  while (!(await fetch(url).then(Boolean, () => false))) {
    if (child.exitCode !== null || Date.now() > until) {
      child.kill();
      throw new Error(`next did not start:\n${output}`);
    }
    await sleep(100);
  }
  return {
    url,
    async stop() {
      if (child.exitCode !== null) return;
      const exited = once(child, "exit");
      child.kill();
      await exited;
    },
  };
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  server.close();
  await once(server, "close");
  return address.port;
}

/**
 * @param {readonly string[]} urls of the processes
 * @param {string} ledgerFile
 */
async function exchanges(urls, ledgerFile) {
  let turn = 0;
  /** @param {Payment} payment */
  const pay = ({ key, amount = 4_200, as = "alice", path = "/api/payments" }) =>
    fetch(`${urls[turn++ % urls.length]}${path}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${as}-secret`,
        "content-type": "application/json",
        ...(key === undefined ? {} : { "idempotency-key": key }),
      },
      body: JSON.stringify({ amount }),
    });
  const ledger = async () => (await readFile(ledgerFile, "utf8")).trim().split("\n");

  const answers = await Promise.all(Array.from({ length: CALLERS }, () => pay({ key: "order-1" })));
  const bodies = new Set(await Promise.all(answers.map((answer) => answer.text())));
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201]);
  assert.equal(bodies.size, 1);
  assert.equal((await ledger()).length, 1);
  said(`${CALLERS} callers on ${urls.length} processes hold one receipt, and the ledger has one line`);

  const replays = answers.filter(({ headers }) => headers.get("idempotent-replayed") === "true");
  assert.equal(replays.length, CALLERS - 1);
  const locations = new Set(answers.map(({ headers }) => headers.get("location")));
  assert.equal(locations.size, 1);
  said(`${replays.length} of them are marked as replays, and all have the same Location`);

  const other = await pay({ key: "order-1", amount: 1 });
  assert.equal(other.status, 422);
  assert.equal(await codeOf(other), "conflict");
  said("the key with another amount is a conflict");

  const keyless = await pay({});
  assert.equal(keyless.status, 400);
  assert.equal(keyless.headers.get("content-type"), "application/problem+json");
  said("a request without a key is refused with a problem");

  const bob = await pay({ key: "order-1", as: "bob" });
  assert.equal(bob.status, 201);
  assert.equal(bodies.has(await bob.text()), false);
  said("another customer's equal key is another charge");

  const stranger = await pay({ key: "order-1", as: "eve" });
  assert.equal(stranger.status, 500);
  assert.equal(await codeOf(stranger), "scope-missing");
  said("a caller without a name has no keys");

  const lines = (await ledger()).length;
  for (let i = 0; i < 3; i++) {
    const refund = await pay({ key: "refund-1", path: "/api/payments/r-17/refunds" });
    assert.equal(refund.status, 204);
    assert.equal(await refund.text(), "");
  }
  assert.deepEqual((await ledger()).slice(lines), ['{"refund":"r-17"}']);
  said("a handler has its route's parameters, and an empty answer is replayed as one");
}

/** @param {Response} problem */
async function codeOf(problem) {
  const { code } = /** @type {{ code: string }} */ (await problem.json());
  return code;
}

/** @param {string} what */
function said(what) {
  console.log(`ok      ${what}`);
}
