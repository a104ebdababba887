/**
 * The connections of the gateway's clients: it limits their number, tracks the requests on each, closes connections
 * whose client stalls, and drains them when the server stops.
 *
 * Node limits how long the headers may take. This file limits the rest: it closes a socket that was idle for
 * `bodyTimeoutMs` if the gateway is waiting for the client.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { BlockList, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { clientNetwork, isListed } from "../client-network.ts";
import { failBody } from "./forwarded-body.ts";
import { requestTimeoutError } from "./gateway-errors.ts";
import type { Refusals } from "./refusals.ts";

export interface ConnectionLimits {
  readonly maxConnections: number;
  readonly maxPerAddress: number;
  readonly bodyTimeoutMs: number;
  /** Proxies, from whose addresses the connections of many clients come. */
  readonly trusted: BlockList;
  readonly refusals: Refusals;
}

export interface Connections {
  /** Counts the connections that the server accepts, and closes those that exceed a limit or stall. */
  watch(server: Server): void;
  /** The same for a server that takes over connections which another server accepted and counted. */
  watchHandedOver(server: Server): void;
  /** Call for every request, before it is answered. */
  begin(req: IncomingMessage, res: ServerResponse): void;
  isBusy(socket: Duplex): boolean;
  /** Refuses all further requests on this connection, because the end of this request is not certain. */
  distrust(req: IncomingMessage, res: ServerResponse): void;
  isDistrusted(socket: Duplex): boolean;
  /** Calls `then` once all requests on this connection are answered; never if the connection closes before. */
  afterAnswers(socket: Duplex, then: () => void): void;
  /**
   * Accepts nothing new. Resolves when the last connection of `server` is closed, after `drainMs` at the latest. `sparesIdle` leaves
   * idle connections to their clients.
   */
  close(server: Server, how: { readonly drainMs: number; readonly sparesIdle: boolean }): Promise<void>;
}

interface ClientExchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
}

/** How long a client that was answered early may continue to send its body, so that it can read the response. */
const LINGER_MS = 2_000;

export function createConnections(limits: ConnectionLimits): Connections {
  const { maxConnections, maxPerAddress, bodyTimeoutMs, trusted, refusals } = limits;
  const running = new Map<Duplex, Set<ClientExchange>>();
  const waiting = new WeakMap<Duplex, () => void>();
  const accepted = new Set<Socket>();
  const distrusted = new WeakSet<Duplex>();
  const perNetwork = new Map<string, number>();
  let isClosing = false;
  let cutsIdle = false;

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

  function track(socket: Duplex): Set<ClientExchange> {
    let exchanges = running.get(socket);
    if (exchanges === undefined) {
      exchanges = new Set();
      running.set(socket, exchanges);
      socket.once("close", () => running.delete(socket));
    }
    return exchanges;
  }

  /** After a busy phase, timers fire before the process has read waiting data. So it checks again before it acts. */
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
      const error = requestTimeoutError();
      // If the body is being forwarded, this fails the request to the service, and with it the key.
      if (!failBody(sending.req, error)) refusals.answer(sending.res, error);
    } else if (sending !== undefined || exchanges.length === 0 || socket.writableLength > 0) socket.destroy();
    // The client waits for the gateway, or for the service, which has its own timeout.
    else socket.setTimeout(bodyTimeoutMs);
  }

  function end(socket: Duplex, exchange: ClientExchange): void {
    const exchanges = running.get(socket);
    if (exchanges === undefined) return;
    exchanges.delete(exchange);
    if (!exchange.req.complete) lingerAfter(exchange);
    if (exchanges.size > 0) return;
    // The response has been sent. The client closes first if it got `Connection: close`.
    if (cutsIdle) socket.end();
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

    watchHandedOver(server) {
      watchStalls(server);
      // Node checks for late headers only on a server that listens.
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

    async close(server, { drainMs, sparesIdle }) {
      isClosing = true;
      cutsIdle = !sparesIdle;
      for (const exchanges of running.values())
        for (const { res } of exchanges) if (!res.headersSent) res.shouldKeepAlive = false;
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      if (cutsIdle) for (const [socket, exchanges] of running) if (exchanges.size === 0) socket.destroy();
      const late = setTimeout(() => {
        for (const socket of accepted) socket.destroy();
      }, drainMs);
      await closed;
      clearTimeout(late);
    },
  };
}

/** Whether the gateway waits for more of the body. If node's buffer is full, it is the gateway that does not read. */
function owesBody(req: IncomingMessage): boolean {
  return !req.complete && req.readableLength < req.readableHighWaterMark;
}

/** Closing at once, while the client still sends, would lose the response; never closing would keep the connection forever. */
function lingerAfter({ req }: ClientExchange): void {
  const { socket } = req;
  const late = setTimeout(() => socket.destroy(), LINGER_MS);
  late.unref();
  // Node emits no "close" for a request that was answered. Without it, the layer would wait for the body forever.
  const onClose = () => {
    clearTimeout(late);
    req.destroy();
  };
  socket.once("close", onClose);
  req.once("end", () => {
    clearTimeout(late);
    // The connection may have many more requests.
    socket.off("close", onClose);
  });
}
