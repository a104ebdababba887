/**
 * The connections of the gateway's clients: how many there may be, what runs on each, which of them keeps the gateway
 * waiting, and how they end when the server stops.
 *
 * Node limits how long a head may take. What comes after it is limited here: a socket on which nothing moved for
 * `bodyTimeoutMs` is closed if it is the client that has to move.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { BlockList, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { clientNetwork, isListed } from "../client-network.ts";
import { answerFailure, stalled } from "./failure.ts";
import { failBody } from "./request-body.ts";

export interface ConnectionLimits {
  readonly maxConnections: number;
  readonly maxPerAddress: number;
  readonly bodyTimeoutMs: number;
  /** Proxies: the connections of many clients come from their addresses. */
  readonly trusted: BlockList;
}

export interface Connections {
  /** Counts the connections that the server accepts and closes those that are one too many, or stall. */
  watch(server: Server): void;
  /** The same for a server that is handed connections which were accepted, and counted, by another. */
  watchHandedOn(server: Server): void;
  /** To be told of every request before it is answered. */
  begin(req: IncomingMessage, res: ServerResponse): void;
  isBusy(socket: Duplex): boolean;
  /** What comes behind this request on its connection cannot be told from it: nothing more is taken from there. */
  distrust(req: IncomingMessage, res: ServerResponse): void;
  isDistrusted(socket: Duplex): boolean;
  /** Calls `then` once everything that was asked on this connection has been answered; not if it closes before. */
  afterAnswers(socket: Duplex, then: () => void): void;
  /** Takes nothing new; resolves when the last connection of `server` is closed, which is after `drainMs` at the latest. */
  close(server: Server, drainMs: number): Promise<void>;
}

interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
}

/** How long a client that was answered before it had sent everything may go on sending, to read the answer meanwhile. */
const LINGER_MS = 2_000;

export function createConnections(limits: ConnectionLimits): Connections {
  const { maxConnections, maxPerAddress, bodyTimeoutMs, trusted } = limits;
  const running = new Map<Duplex, Set<Exchange>>();
  const waiting = new WeakMap<Duplex, () => void>();
  const accepted = new Set<Socket>();
  const distrusted = new WeakSet<Duplex>();
  const perNetwork = new Map<string, number>();
  let isClosing = false;

  function admit(socket: Socket): void {
    accepted.add(socket);
    socket.once("close", () => accepted.delete(socket));
    if (isListed(trusted, socket.remoteAddress)) return;
    const network = clientNetwork(socket.remoteAddress);
    const count = (perNetwork.get(network) ?? 0) + 1;
    perNetwork.set(network, count);
    socket.once("close", () => {
      const left = (perNetwork.get(network) ?? 1) - 1;
      if (left > 0) perNetwork.set(network, left);
      else perNetwork.delete(network);
    });
    if (count > maxPerAddress) socket.destroy();
  }

  function track(socket: Duplex): Set<Exchange> {
    let exchanges = running.get(socket);
    if (exchanges === undefined) {
      exchanges = new Set();
      running.set(socket, exchanges);
      socket.once("close", () => running.delete(socket));
    }
    return exchanges;
  }

  /** A process that was busy for as long finds its timers due before it has read what came meanwhile: it looks again. */
  function onTimeout(socket: Socket): void {
    const { bytesRead } = socket;
    setImmediate(() => {
      if (socket.destroyed) return;
      if (socket.bytesRead === bytesRead) onStall(socket);
      else socket.setTimeout(bodyTimeoutMs);
    });
  }

  function onStall(socket: Socket): void {
    const exchanges = [...(running.get(socket) ?? [])];
    const sending = exchanges.find(({ req }) => owesBody(req));
    if (sending !== undefined && !sending.res.headersSent) {
      const error = stalled();
      // What is on its way to the service fails there, and its key with it.
      if (!failBody(sending.req, error)) answerFailure(sending.res, error);
    } else if (sending !== undefined || exchanges.length === 0 || socket.writableLength > 0) socket.destroy();
    // It waits for us, or for the service, which has limits of its own.
    else socket.setTimeout(bodyTimeoutMs);
  }

  function end(socket: Duplex, exchange: Exchange): void {
    const exchanges = running.get(socket);
    if (exchanges === undefined) return;
    exchanges.delete(exchange);
    if (!exchange.req.complete) lingerAfter(exchange);
    if (exchanges.size > 0) return;
    // What was answered has left: the other side closes first where it was told to.
    if (isClosing) socket.end();
    waiting.get(socket)?.();
    waiting.delete(socket);
  }

  function watchStalls(server: Server): void {
    server.timeout = bodyTimeoutMs;
    server.on("timeout", onTimeout);
  }

  return {
    watch(server) {
      server.maxConnections = maxConnections;
      server.on("connection", admit);
      const isTls = "setSecureContext" in server;
      server.on(isTls ? "secureConnection" : "connection", (socket: Socket) => void track(socket));
      watchStalls(server);
    },

    watchHandedOn(server) {
      watchStalls(server);
      // Node looks for late heads only on a server that listens.
      server.emit("listening");
    },

    begin(req, res) {
      const { socket } = req;
      const exchange = { req, res };
      track(socket).add(exchange);
      if (isClosing) res.shouldKeepAlive = false;
      res.once("close", () => end(socket, exchange));
    },

    distrust({ socket }, res) {
      distrusted.add(socket);
      res.shouldKeepAlive = false;
    },

    isDistrusted: (socket) => distrusted.has(socket),

    isBusy: (socket) => (running.get(socket)?.size ?? 0) > 0,

    afterAnswers(socket, then) {
      if ((running.get(socket)?.size ?? 0) === 0) then();
      else waiting.set(socket, then);
    },

    async close(server, drainMs) {
      isClosing = true;
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      for (const [socket, exchanges] of running) if (exchanges.size === 0) socket.destroy();
      const late = setTimeout(() => {
        for (const socket of accepted) socket.destroy();
      }, drainMs);
      await closed;
      clearTimeout(late);
    },
  };
}

/** Whether the client has to send more. Not while it is we who do not read on: then node's buffer is full. */
function owesBody(req: IncomingMessage): boolean {
  return !req.complete && req.readableLength < req.readableHighWaterMark;
}

/** A connection that is closed while its client still sends loses the answer; one that stays open is never done. */
function lingerAfter({ req }: Exchange): void {
  const { socket } = req;
  const late = setTimeout(() => socket.destroy(), LINGER_MS);
  late.unref();
  req.once("end", () => clearTimeout(late));
  // Node emits no "close" for a request that was answered. Without one, the layer would wait for its body for ever.
  socket.once("close", () => {
    clearTimeout(late);
    req.destroy();
  });
}
