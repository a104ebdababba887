/** The service behind the gateway: fast at some paths; at others it stalls before or within its response. */
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface StallingService {
  readonly port: number;
  close(): void;
}

const PIECE = Buffer.alloc(262_144, "a");
const PIECES = 256;

export async function startStallingService(): Promise<StallingService> {
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: 60_000 }, (req, res) => {
    const path = req.url?.split("?", 1)[0] ?? "";
    res.on("error", () => {});
    req.on("error", () => {}).resume();
    if (path.endsWith("/silent")) return;
    if (path.endsWith("/half")) res.writeHead(200, { "Content-Length": 1_000_000 }).write(PIECE);
    else if (path.endsWith("/large")) void writeLarge(res);
    else req.on("end", () => res.writeHead(200, { "Content-Type": "text/plain" }).end("done"));
  });
  server.on("upgrade", (_req, socket) => socket.on("error", () => {}));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    close: () => void server.close().closeAllConnections(),
  };
}

/** Writes as fast as the client reads. */
async function writeLarge(res: ServerResponse): Promise<void> {
  res.writeHead(200, { "Content-Length": PIECE.length * PIECES });
  for (let left = PIECES; left > 0 && !res.destroyed; left--)
    if (!res.write(PIECE)) await Promise.race([once(res, "drain"), once(res, "close")]).catch(() => {});
  res.end();
}
