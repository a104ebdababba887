/** A service that answers with exactly the bytes that the test planned, legal or not. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { type ReadRequest, readRequests } from "./reading.ts";
import { caseOf } from "./recorder.ts";

export interface Responder {
  readonly port: number;
  /** Sets the answer to a case. Every other request gets a correct answer. */
  plan(id: string, answer: Pick<Planned, "pieces" | "closes">): void;
  close(): void;
}

interface Planned {
  readonly pieces: readonly string[];
  readonly closes: boolean;
}

export async function startResponder(): Promise<Responder> {
  const planned = new Map<string, Planned>();
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    let bytes = "";
    let answering = Promise.resolve();
    socket.on("data", (chunk: Buffer) => {
      bytes += chunk.toString("latin1");
      const { messages, offset } = readRequests(bytes);
      bytes = bytes.slice(offset);
      for (const request of messages) answering = answering.then(() => write(socket, answerTo(request)));
    });
  });

  function answerTo({ headers, target }: ReadRequest): Planned {
    const id = caseOf(headers, target);
    const plan = planned.get(id);
    planned.delete(id);
    const proper = `HTTP/1.1 200 OK\r\nX-Answer: ${id}\r\nContent-Length: ${id.length}\r\n\r\n${id}`;
    return plan ?? { pieces: [proper], closes: false };
  }

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    plan: (id, answer) => void planned.set(id, answer),
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

async function write(socket: Socket, { pieces, closes }: Planned): Promise<void> {
  for (const piece of pieces) {
    if (socket.destroyed) return;
    socket.write(piece, "latin1");
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (closes) socket.end();
}
