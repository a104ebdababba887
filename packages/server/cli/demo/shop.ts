/**
 * The shop of the demo: an ordinary service without any code for nevertwice. It is sometimes slow, and sometimes crashes
 * in the middle of a charge. Its payment provider honours idempotency keys, as real ones do.
 */
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";
import type { Tally } from "./tally.ts";

export interface Shop {
  readonly url: string;
  close(): Promise<void>;
}

/** In percent of the charges. */
const SLOW = 15;
const CRASHES_BEFORE = 3;
const CRASHES_AFTER = 4;

export async function openShop(tally: Tally): Promise<Shop> {
  const provider = createProvider(tally);
  async function sell(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const key = unquoted(request.headers["idempotency-key"]);
    const { amount } = JSON.parse(await readBody(request)) as { readonly amount: number };
    tally.started(key);
    const chance = Math.random() * 100;
    await setTimeout(chance < SLOW ? 300 + Math.random() * 900 : 5 + Math.random() * 40);
    const luck = Math.random() * 100;
    if (luck < CRASHES_BEFORE) return crash(request, key);
    const charge = provider.charge(key, amount);
    if (luck > 100 - CRASHES_AFTER) return crash(request, key);
    response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ charge, amount }));
  }
  /** Acts like a crashed process: the client gets no response. */
  function crash({ socket }: IncomingMessage, key: string): void {
    tally.crashed(key);
    socket.destroy();
  }
  const server = createServer((request, response) => {
    // The client disconnected before its request was read.
    sell(request, response).catch(() => request.socket.destroy());
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Makes one charge per key, and returns the same charge for the same key. */
function createProvider(tally: Tally) {
  const charges = new Map<string, string>();
  return {
    charge(key: string, _amount: number): string {
      const known = charges.get(key);
      if (known !== undefined) return known;
      const made = randomUUID();
      charges.set(key, made);
      tally.effect("charge", key);
      return made;
    },
  };
}

function unquoted(header: string | readonly string[] | undefined): string {
  return String(header ?? "").replace(/^"(.*)"$/, "$1");
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
