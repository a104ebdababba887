/** A client that writes exactly what it is given, piece by piece, and keeps every byte that it is answered. */
import { connect } from "node:net";

export interface Answered {
  readonly bytes: string;
  /** Whether the gateway closed the connection; else the client did. */
  readonly isClosed: boolean;
}

export interface Exchange {
  readonly port: number;
  readonly pieces: readonly string[];
  /** Whether nothing more can come though the connection is open, given what has come. Asked once all is written. */
  isOver(bytes: string): boolean;
}

/** The gateway may wait for the rest of a broken request for as long as its limits allow; nobody needs to watch it. */
const PATIENCE_MS = 2_000;

export function exchange({ port, pieces, isOver }: Exchange): Promise<Answered> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    let bytes = "";
    let isClosed = true;
    let next = 0;
    const leave = () => {
      isClosed = false;
      socket.destroy();
    };
    const timer = setTimeout(leave, PATIENCE_MS);
    const look = () => {
      if (next >= pieces.length && isOver(bytes)) leave();
    };
    socket.on("data", (chunk: Buffer) => {
      bytes += chunk.toString("latin1");
      look();
    });
    socket.on("error", () => {});
    socket.once("close", () => {
      clearTimeout(timer);
      resolve({ bytes, isClosed });
    });
    const writeNext = () => {
      if (next >= pieces.length || socket.destroyed) return look();
      socket.write(pieces[next++] as string, "latin1", () => setImmediate(writeNext));
    };
    socket.once("connect", writeNext);
  });
}
