/** A TCP proxy in front of a server, whose faults a scenario switches on and off. */
import { once } from "node:events";
import { connect, createServer } from "node:net";

/**
 * `refuse` resets every connection; `hang` lets requests through to nobody; `drop-replies` delivers requests, and cuts the
 * connection when the first reply comes back.
 */
export async function startNetworkFaults(url) {
  const target = new URL(url);
  let mode = "ok";
  let hit = () => {};
  const open = new Set();

  const server = createServer((client) => {
    if (mode === "refuse") {
      client.resetAndDestroy();
      hit();
      return;
    }
    const upstream = connect(Number(target.port), target.hostname);
    const end = () => {
      open.delete(end);
      client.destroy();
      upstream.destroy();
    };
    open.add(end);
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      socket.on("error", end);
      socket.on("close", end);
    }
    client.on("data", (chunk) => {
      if (mode === "hang") hit();
      else upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      if (mode === "drop-replies") {
        end();
        hit();
      } else if (mode !== "hang") client.write(chunk);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");

  const through = new URL(url);
  through.port = String(server.address().port);
  through.hostname = "127.0.0.1";
  return {
    url: through.href.replace(/\/$/, url.endsWith("/") ? "/" : ""),
    set(next) {
      const wasBroken = mode === "hang";
      mode = next;
      // Bytes were lost on the open connections, so their streams cannot go on.
      if (next === "refuse" || wasBroken) for (const end of [...open]) end();
    },
    /** Resolves when the present fault has met a client. */
    met: () =>
      new Promise((resolve) => {
        hit = resolve;
      }),
    close() {
      for (const end of [...open]) end();
      server.close();
    },
  };
}
