/** The service behind the gateways: it honours keys, needs some time for each effect, and records every try. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";
import type { Try } from "./referee.ts";

export interface Service {
  readonly tries: readonly Try[];
  /** A separate address for each start of a server, which identifies its tries. */
  address(server: string): Promise<string>;
  close(): void;
}

export function startService(workMs: () => number): Service {
  const tries: Try[] = [];
  const effects = new Map<string, number>();
  const servers: ReturnType<typeof createServer>[] = [];

  async function serve(by: string, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const key = req.headers["idempotency-key"]?.toString() ?? "none";
    const at = performance.now();
    req.resume();
    // Half of the time before the effect and half after it, so that a kill can happen in between.
    await setTimeout(workMs() / 2);
    const effect = effects.get(key) ?? effects.size + 1;
    effects.set(key, effect);
    tries.push({ key, by, at, fence: Number(req.headers["nevertwice-fence"]), effect });
    await setTimeout(workMs() / 2);
    res.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ effect }));
  }

  return {
    tries,
    address(by) {
      const server = createServer((req, res) => void serve(by, req, res));
      servers.push(server);
      return new Promise((resolve) => {
        server.listen(0, "127.0.0.1", () =>
          resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
        );
      });
    },
    close() {
      for (const server of servers) server.close().closeAllConnections();
    },
  };
}
