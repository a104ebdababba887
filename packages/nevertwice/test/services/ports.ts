/** Free ports on the loopback address. */
import { createServer } from "node:net";

/**
 * Below the range from which the system takes the ports of outgoing connections: a port from there can be taken while
 * its server restarts, even by a client that knocks at it and gets connected to itself. A Redis cluster's node also
 * uses its port plus 10,000, which stays below that range too.
 */
const FIRST = 12_000;
const COUNT = 10_000;

export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * COUNT);
    if ((await isFree(port)) && (await isFree(port + COUNT))) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
