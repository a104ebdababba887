import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

/** @type {import("node:child_process").ChildProcess} */
let server;
let url = "";

before(async () => {
  const port = await freePort();
  const args = ["node_modules/next/dist/bin/next", "start", "-p", String(port), "-H", "127.0.0.1"];
  server = spawn(process.execPath, args, { stdio: "inherit" });
  url = `http://127.0.0.1:${port}/api/payments`;
  for (let tries = 0; !(await isListening(port)); tries++) {
    assert.ok(server.exitCode === null && tries < 600, "next did not start");
    await sleep(100);
  }
});

after(async () => {
  server.kill();
  if (server.exitCode === null) await once(server, "exit");
});

/** @param {number} port */
function isListening(port) {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  assert.ok(typeof address === "object" && address !== null);
  probe.close();
  await once(probe, "close");
  return address.port;
}

/**
 * @param {string | undefined} key
 * @param {number} amount
 */
function pay(key, amount = 4_200, customer = "alice") {
  return fetch(url, {
    method: "POST",
    headers: {
      authorization: `Bearer ${customer}-secret`,
      "content-type": "application/json",
      ...(key !== undefined && { "idempotency-key": key }),
    },
    body: JSON.stringify({ amount }),
  });
}

/** The store may have records of an earlier run. */
const KEY = crypto.randomUUID();

test("charges once, however often the payment is sent", async () => {
  const answers = await Promise.all(Array.from({ length: 10 }, () => pay(KEY)));
  assert.deepEqual(
    answers.map(({ status }) => status),
    answers.map(() => 201),
  );
  const bodies = await Promise.all(answers.map((answer) => answer.text()));
  assert.equal(new Set(bodies).size, 1);
  assert.equal(answers.filter(({ headers }) => headers.get("idempotent-replayed") === "true").length, 9);
});

test("refuses another amount with the same key, and a payment without a key", async () => {
  assert.equal((await pay(KEY, 1)).status, 422);
  assert.equal((await pay(undefined)).status, 400);
  assert.equal((await pay(KEY, 4_200, "bob")).status, 201);
});
