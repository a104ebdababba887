/** The ways in which a client, or the service, starts something and then stalls. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface Stall {
  readonly name: string;
  /** What the client sends before it stalls: a head, in which # is a unique number, and a part of a body. */
  readonly head: string;
  readonly bodyBytes: number;
  /** Whether it reads the response. */
  readonly reads: boolean;
}

const HOST = "Host: localhost\r\n";
const MEBIBYTE = 1_048_576;

const FILLER = Buffer.alloc(MEBIBYTE, "b");
const KEY = 'Idempotency-Key: "stalled-#"\r\n';

export const STALLS: readonly Stall[] = [
  stall("heads that never end", `GET /quick HTTP/1.1\r\n${HOST}X-Endless: `),
  stall(
    "bodies that stall after 1 MiB",
    `POST /quick HTTP/1.1\r\n${HOST}Content-Length: ${2 * MEBIBYTE}\r\n\r\n`,
    { bodyBytes: MEBIBYTE },
  ),
  stall(
    "bodies with a key that stall before their end",
    `POST /api/quick HTTP/1.1\r\n${HOST}${KEY}Content-Length: 900000\r\n\r\n`,
    { bodyBytes: 800_000 },
  ),
  stall("clients that never read a large answer", `GET /large HTTP/1.1\r\n${HOST}\r\n`, { reads: false }),
  stall("services that stall before the head of an answer", `GET /silent HTTP/1.1\r\n${HOST}\r\n`),
  stall("services that stall within an answer", `GET /half HTTP/1.1\r\n${HOST}\r\n`),
  stall(
    "services that stall within an answer to a request with a key",
    `POST /api/half HTTP/1.1\r\n${HOST}${KEY}Content-Length: 0\r\n\r\n`,
  ),
  stall("connections that are kept and not used", `GET /quick HTTP/1.1\r\n${HOST}\r\n`),
  stall(
    "WebSocket handshakes that get no answer",
    `GET /silent HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  ),
];

function stall(name: string, head: string, how: Partial<Stall> = {}): Stall {
  return { name, head, bodyBytes: 0, reads: true, ...how };
}

export interface Stalled {
  /** Whether the gateway has closed all of them, except those that never read and so cannot know. */
  haveEnded(): boolean;
  /** Closes those that are left. */
  end(): void;
}

/** How many are opened at once: the service and the working clients share the process and need time, too. */
const AT_ONCE = 50;

/** Opens this many from one address. The gateway closes those that it does not accept. */
export async function openStalled(stall: Stall, count: number, port: number): Promise<Stalled> {
  const sockets = new Set<Socket>();
  for (let opened = 0; opened < count; opened += AT_ONCE) {
    const turn = Array.from({ length: Math.min(AT_ONCE, count - opened) }, (_, index) => {
      const socket = connect({ port, host: "127.0.0.1", localAddress: "127.0.0.1" });
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      return begin(socket, stall, opened + index);
    });
    await Promise.all(turn);
  }
  return {
    haveEnded: () => !stall.reads || sockets.size === 0,
    end() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

async function begin(socket: Socket, { head, bodyBytes, reads }: Stall, index: number): Promise<void> {
  const either = (event: string) =>
    Promise.race([once(socket, event), once(socket, "close")]).catch(() => {});
  socket.on("error", () => {});
  if (reads) socket.resume();
  await either("connect");
  socket.write(head.replace("#", String(index)));
  if (bodyBytes > 0) socket.write(FILLER.subarray(0, bodyBytes));
  // The first byte of a response shows that it was accepted.
  if (!reads) await either("readable");
}
