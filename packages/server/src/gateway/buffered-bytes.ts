/**
 * Counts the bytes of bodies that the gateway holds in memory: of requests that are read for their fingerprint, and of
 * responses that are held back until the store has them. One address may use a quarter of the room for requests, so that
 * a client that never finishes its requests leaves room for others.
 */
import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { BlockList } from "node:net";
import { clientNetwork, isListed } from "../client-network.ts";

export interface BufferedBytes {
  /** Counts the body of a request while it is read. Calls `refuse` once if it needs more room than there is. */
  countRequest(req: IncomingMessage, res: ServerResponse, refuse: () => void): void;
  /** Call before the body is read a second time, so that its bytes are not counted twice. */
  stopCounting(req: IncomingMessage): void;
  /** Reserves room for bytes of a response until it is closed. False if there is no room. */
  takeForAnswer(res: ServerResponse, bytes: number): boolean;
}

/** The share of the room that one address may use. */
const SHARE = 1 / 4;

/** `trusted` are proxies, from whose addresses the requests of many clients come. */
export function createBufferedBytes(maxBytes: number, trusted: BlockList = new BlockList()): BufferedBytes {
  const byNetwork = new Map<string, number>();
  const answers = new WeakMap<ServerResponse, number>();
  const counting = new WeakMap<IncomingMessage, (chunk: Uint8Array) => void>();
  let requestBytes = 0;
  let responseBytes = 0;

  function add(network: string, bytes: number): void {
    requestBytes += bytes;
    const held = (byNetwork.get(network) ?? 0) + bytes;
    if (held > 0) byNetwork.set(network, held);
    else byNetwork.delete(network);
  }

  return {
    countRequest(req, res, refuse) {
      const { remoteAddress } = req.socket;
      const network = clientNetwork(remoteAddress);
      const most = isListed(trusted, remoteAddress) ? maxBytes : maxBytes * SHARE;
      let own = 0;
      let isRefused = false;
      const onData = (chunk: Uint8Array): void => {
        own += chunk.length;
        add(network, chunk.length);
        const isOver = requestBytes > maxBytes || (byNetwork.get(network) ?? 0) > most;
        if (!isOver || isRefused) return;
        isRefused = true;
        refuse();
      };
      // `req.on("data")` would start the stream before its reader is attached.
      EventEmitter.prototype.on.call(req, "data", onData);
      counting.set(req, onData);
      res.once("close", () => {
        EventEmitter.prototype.off.call(req, "data", onData);
        add(network, -own);
      });
    },

    stopCounting(req) {
      const onData = counting.get(req);
      if (onData !== undefined) EventEmitter.prototype.off.call(req, "data", onData);
    },

    takeForAnswer(res, bytes) {
      if (responseBytes + bytes > maxBytes) return false;
      const before = answers.get(res);
      responseBytes += bytes;
      answers.set(res, (before ?? 0) + bytes);
      if (before === undefined)
        res.once("close", () => {
          responseBytes -= answers.get(res) ?? 0;
          answers.delete(res);
        });
      return true;
    },
  };
}
