/** The service behind the gateway: fast at some paths; at others it stalls before or within its response. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";

export interface StallingService {
  readonly port: number;
  close(): void;
}

const PIECE = Buffer.alloc(262_144, "a");
const PIECES = 256;
const LARGE = { "Content-Length": PIECE.length * PIECES };

export async function startStallingService(): Promise<StallingService> {
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: 60_000 }, (req, res) => {
    const path = req.url?.split("?", 1)[0] ?? "";
    res.on("error", () => {});
    req.on("error", () => {}).resume();
    if (path.endsWith("/silent")) return;
    if (path.endsWith("/half")) res.writeHead(200, { "Content-Length": 1_000_000 }).write(PIECE);
    else if (path.endsWith("/large"))
      Readable.from(new Array<Buffer>(PIECES).fill(PIECE)).pipe(res.writeHead(200, LARGE));
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
