/** Forwards connections to a port that can change, as the address of a failover service does. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface MovingAddress {
  readonly port: number;
  /** New connections go to this port. Open ones are cut, unless `keepsOpen`. */
  moveTo(port: number, options?: { readonly keepsOpen?: boolean }): void;
  stop(): Promise<void>;
}

export async function startMovingAddress(first: number): Promise<MovingAddress> {
  const sockets = new Set<Socket>();
  let target = first;
  const listener = createServer((client) => {
    const server = connect(target, "127.0.0.1");
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => other.destroy()).on("close", () => other.destroy() && sockets.delete(socket));
    }
    client.pipe(server).pipe(client);
  });
  await once(listener.listen(0, "127.0.0.1"), "listening");
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (listener.address() as AddressInfo).port,
    moveTo(port, { keepsOpen = false } = {}) {
      target = port;
      if (!keepsOpen) cut();
    },
    async stop() {
      cut();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}
