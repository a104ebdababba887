/** The ways in which a client, or the service for it, begins something and then stalls. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface Stall {
  readonly name: string;
  /** What the client sends before it stalls. */
  readonly bytes: Buffer;
  /** Whether it reads what it is answered. */
  readonly reads: boolean;
}

const HOST = "Host: localhost\r\n";
const MEBIBYTE = 1_048_576;

export const STALLS: readonly Stall[] = [
  stall("heads that never end", `GET /quick HTTP/1.1\r\n${HOST}X-Endless: `),
  stall(
    "bodies that stall after 1 MiB",
    `POST /quick HTTP/1.1\r\n${HOST}Content-Length: ${2 * MEBIBYTE}\r\n\r\n${"b".repeat(MEBIBYTE)}`,
  ),
  stall(
    "bodies with a key that stall before their end",
    `POST /api/quick HTTP/1.1\r\n${HOST}Idempotency-Key: "#"\r\nContent-Length: 900000\r\n\r\n${"b".repeat(800_000)}`,
  ),
  stall("clients that never read a large answer", `GET /large HTTP/1.1\r\n${HOST}\r\n`, false),
  stall("services that stall before the head of an answer", `GET /silent HTTP/1.1\r\n${HOST}\r\n`),
  stall("services that stall within an answer", `GET /half HTTP/1.1\r\n${HOST}\r\n`),
  stall(
    "services that stall within an answer to a request with a key",
    `POST /api/half HTTP/1.1\r\n${HOST}Idempotency-Key: "#"\r\nContent-Length: 0\r\n\r\n`,
  ),
  stall("connections that are kept and not used", `GET /quick HTTP/1.1\r\n${HOST}\r\n`),
  stall(
    "WebSocket handshakes that nobody answers",
    `GET /silent HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  ),
];

function stall(name: string, text: string, reads = true): Stall {
  return { name, bytes: Buffer.from(text), reads };
}

export interface Stalled {
  /** Whether the gateway has ended all of them, as far as their clients can tell: one that never reads cannot. */
  haveEnded(): boolean;
  /** Ends those that are left. */
  end(): void;
}

/** Opens that many, all from one address. Those that the gateway does not take are gone by themselves. */
export async function openStalled({ bytes, reads }: Stall, count: number, port: number): Promise<Stalled> {
  const sockets = new Set<Socket>();
  const text = bytes.toString("latin1");
  const opened = Array.from({ length: count }, async (_, index) => {
    const socket = connect({ port, host: "127.0.0.1", localAddress: "127.0.0.1" });
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    if (reads) socket.resume();
    await Promise.race([once(socket, "connect"), once(socket, "close")]).catch(() => {});
    socket.write(text.includes("#") ? text.replace("#", `stalled-${index}`) : bytes);
    // The first byte of an answer shows that it was taken.
    if (!reads) await Promise.race([once(socket, "readable"), once(socket, "close")]).catch(() => {});
  });
  await Promise.all(opened);
  return {
    haveEnded: () => !reads || sockets.size === 0,
    end() {
      for (const socket of sockets) socket.destroy();
    },
  };
}
