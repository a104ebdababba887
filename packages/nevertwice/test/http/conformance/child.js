/**
 * A service in a separate process that a test can kill: `node child.js <build> <records> <effects> <leaseMs>`. It says its
 * port, then every run. A run writes a line to the file of effects, and answers unless its path is /hang.
 */
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";

const [build = "", records = "", effects = "", leaseMs = ""] = process.argv.slice(2);
const { createGuard } = await import(`${build}index.js`);
const { sqliteStore } = await import(`${build}stores/sqlite.js`);
const { idempotency } = await import(`${build}http/node.js`);

/** @param {unknown} said */
const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);

const guard = createGuard({
  store: sqliteStore({ file: records }),
  leaseMs: Number(leaseMs),
  purgeEveryMs: 0,
});
const layer = idempotency(guard, { scope: "anyone", operation: "charge", fingerprint: "none" });

const server = createServer(
  layer(
    (
      /** @type {import("node:http").IncomingMessage} */ req,
      /** @type {import("node:http").ServerResponse} */ res,
    ) => {
      appendFileSync(effects, "charged\n");
      say("ran");
      if (req.url !== "/hang") res.writeHead(201).end(`charged by ${process.pid}`);
    },
  ),
);
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  say(typeof address === "object" ? address?.port : address);
});
