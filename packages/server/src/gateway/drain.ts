/** The end of a server: connections on which nothing runs are closed at once, the others when what runs is over. */
import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

export interface Drain {
  /** To be told of every request before it is answered. */
  begin(res: ServerResponse): void;
  /** Takes nothing new; resolves when the last connection is closed, which is after `drainMs` at the latest. */
  close(drainMs: number): Promise<void>;
}

export function createDrain(server: Server, isTls: boolean): Drain {
  const running = new Map<Socket, number>();
  let isClosing = false;

  server.on(isTls ? "secureConnection" : "connection", (socket: Socket) => {
    if (running.has(socket)) return;
    running.set(socket, 0);
    socket.once("close", () => running.delete(socket));
  });

  return {
    begin(res) {
      const { socket } = res;
      if (socket === null) return;
      running.set(socket, (running.get(socket) ?? 0) + 1);
      if (isClosing) res.shouldKeepAlive = false;
      res.once("close", () => {
        const left = (running.get(socket) ?? 1) - 1;
        if (running.has(socket)) running.set(socket, left);
        // What was answered has left: the other side closes first where it was told to.
        if (isClosing && left === 0) socket.end();
      });
    },
    async close(drainMs) {
      isClosing = true;
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      for (const [socket, count] of running) if (count === 0) socket.destroy();
      const late = setTimeout(() => server.closeAllConnections(), drainMs);
      await closed;
      clearTimeout(late);
    },
  };
}
