/**
 * How many bytes of bodies the gateway holds in memory: those of requests that are read for their fingerprint, and those
 * of answers that are held back until they are kept. One address may hold a quarter of the first, so that a stranger
 * who sends much and ends nothing leaves room for others.
 */
import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { BlockList } from "node:net";
import { clientNetwork, isListed } from "../client-network.ts";

export interface Buffered {
  /** Counts the body of a request while it is read; calls `refuse` once if it takes more than there is room for. */
  countRequest(req: IncomingMessage, res: ServerResponse, refuse: () => void): void;
  /** The body was read whole, and is about to be read again: the same bytes are not counted twice. */
  stopCounting(req: IncomingMessage): void;
  /** Makes room for bytes of an answer until the response is closed. False if there is none. */
  takeForAnswer(res: ServerResponse, bytes: number): boolean;
}

/** The part of the room that one address may take. */
const SHARE = 1 / 4;

/** `trusted` are proxies: the requests of many clients come from their addresses. */
export function createBuffered(maxBytes: number, trusted: BlockList = new BlockList()): Buffered {
  const byNetwork = new Map<string, number>();
  const answers = new WeakMap<ServerResponse, number>();
  const counting = new WeakMap<IncomingMessage, (chunk: Uint8Array) => void>();
  let ofRequests = 0;
  let ofAnswers = 0;

  function add(network: string, bytes: number): void {
    ofRequests += bytes;
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
        const isOver = ofRequests > maxBytes || (byNetwork.get(network) ?? 0) > most;
        if (!isOver || isRefused) return;
        isRefused = true;
        refuse();
      };
      // Not the stream's own method, which would set it flowing before its reader is there.
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
      if (ofAnswers + bytes > maxBytes) return false;
      const before = answers.get(res);
      ofAnswers += bytes;
      answers.set(res, (before ?? 0) + bytes);
      if (before === undefined)
        res.once("close", () => {
          ofAnswers -= answers.get(res) ?? 0;
          answers.delete(res);
        });
      return true;
    },
  };
}
