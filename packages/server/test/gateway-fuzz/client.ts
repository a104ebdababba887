/** A client that writes exact bytes, piece by piece, and records every byte of the response. */
import { connect } from "node:net";
import { LIMIT_MS } from "./fuzz-stage.ts";

export interface Answered {
  readonly bytes: string;
  /** Whether the gateway closed the connection; else the client did. */
  readonly isClosed: boolean;
}

export interface Exchange {
  readonly port: number;
  readonly pieces: readonly string[];
  /** Whether the received bytes show that nothing more can come, although the connection is open. Called once all is written. */
  isOver(bytes: string): boolean;
}

/** The gateway has several limits, one after the other, for the rest of a broken request. The client does not wait for all. */
const PATIENCE_MS = 2 * LIMIT_MS;

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
