/** A proxy that is slow at the worst moment: it passes a statement's parameters, and delays the message that executes it. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface ExecuteGate {
  readonly url: string;
  /** Delays the next Execute of each connection, and everything after it, until the gate is opened. */
  close(): void;
  open(): void;
  /** How many connections wait at the gate. */
  readonly waiting: number;
  stop(): Promise<void>;
}

const EXECUTE = "E".charCodeAt(0);
const FLUSH = Buffer.from([0x48, 0, 0, 0, 4]);

export async function startExecuteGate(target: string): Promise<ExecuteGate> {
  const url = new URL(target);
  const server = { host: url.hostname, port: Number(url.port) };
  const sockets = new Set<Socket>();
  const waiting = new Set<() => void>();
  let isClosed = false;

  function open(client: Socket): void {
    const upstream = connect({ ...server, noDelay: true });
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => [client, upstream].map((each) => each.destroy()));
    }
    upstream.on("data", (chunk) => client.write(chunk));
    let bytes: Buffer = Buffer.alloc(0);
    let hasStarted = false;
    let isHeld = false;
    const pass = () => {
      while (!isHeld && bytes.length >= 5) {
        const length = hasStarted ? 1 + bytes.readInt32BE(1) : bytes.readInt32BE(0);
        if (bytes.length < length) return;
        if (hasStarted && isClosed && bytes[0] === EXECUTE) {
          isHeld = true;
          // So that the server processes the earlier messages, and does not wait for more.
          upstream.write(FLUSH);
          const release = () => {
            isHeld = false;
            waiting.delete(release);
            pass();
          };
          waiting.add(release);
          return;
        }
        hasStarted = true;
        upstream.write(bytes.subarray(0, length));
        bytes = bytes.subarray(length);
      }
    };
    client.on("data", (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      pass();
    });
  }

  const listener = createServer({ noDelay: true }, open);
  await once(listener.listen(0, "127.0.0.1"), "listening");
  url.hostname = "127.0.0.1";
  url.port = String((listener.address() as AddressInfo).port);
  return {
    url: url.href,
    close() {
      isClosed = true;
    },
    open() {
      isClosed = false;
      for (const release of [...waiting]) release();
    },
    get waiting() {
      return waiting.size;
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}
