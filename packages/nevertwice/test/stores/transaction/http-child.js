/**
 * A service in a separate process: `node http-child.js <express|fastify> <url> <when>`. It says its port. `POST /pay` writes to
 * the ledger in a transaction and answers with a receipt. `when` is where it kills itself: `commit`, `respond`, or `never`.
 */
import express from "express";
import createFastify from "fastify";
import { idempotency } from "../../../dist/http/express.js";
import { idempotency as idempotencyPlugin } from "../../../dist/http/fastify.js";
import { createGuard } from "../../../dist/index.js";
import { postgresStore } from "../../../dist/stores/postgres.js";
import { dyingPool } from "./dying-pool.js";

const [framework = "", url = "", when = ""] = process.argv.slice(2);
const guard = createGuard({ store: postgresStore({ client: dyingPool(url, false) }), purgeEveryMs: 0 });
const pool = dyingPool(url, when === "commit");

/** @param {import("../../../dist/http/index.js").HttpAttempt | undefined} attempt */
async function pay(attempt) {
  if (attempt === undefined) throw new Error("the request has no key");
  const receipt = await attempt.transaction("pay", pool, async (tx) => {
    await tx.query("INSERT INTO ledger VALUES ($1)", [attempt.key]);
    return { by: process.pid };
  });
  if (when === "respond") process.kill(process.pid, "SIGKILL");
  return { receipt, attempt: attempt.number };
}

/** @param {unknown} said */
const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);

/** @param {import("node:http").Server} server */
function sayPort(server) {
  const address = server.address();
  say(typeof address === "object" ? address?.port : address);
}

if (framework === "express") {
  const app = express();
  app.post("/pay", idempotency(guard, { scope: "anyone" }), async (req, res) => {
    res.status(201).json(await pay(req.idempotency));
  });
  const server = app.listen(0, "127.0.0.1", () => sayPort(server));
} else {
  const app = createFastify();
  await app.register(idempotencyPlugin(guard, { scope: "anyone" }));
  app.post("/pay", async (request, reply) => {
    reply.code(201);
    return pay(request.idempotency);
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  sayPort(app.server);
}
