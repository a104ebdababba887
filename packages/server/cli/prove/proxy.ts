/**
 * A TCP proxy with faults: what a network does to a healthy client and a healthy server. It knows no protocol; a filter
 * selects the bytes that a fault applies to.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { type ProxyLane, startLane } from "./lane.ts";

/** Whether a fault applies to this chunk of a client. */
export type ChunkFilter = (chunk: Buffer) => boolean;

export interface FaultProxy {
  readonly port: number;
  /** The server's URL, with the proxy's address; `tcp://127.0.0.1:port` if only a port was given. */
  readonly url: string;
  /** Open now. */
  readonly connections: number;
  /** Chunks that clients have sent: of one client that waits for each answer, its messages. */
  readonly requests: number;
  readonly bytesToServer: number;
  readonly bytesToClient: number;

  /**
   * The next request reaches the server; the first reply after it is dropped, and the client's connection is cut. With a
   * filter: the next request for which it returns true.
   */
  cutReply(count?: number, filter?: ChunkFilter): void;
  /** The next request never reaches the server; the client's connection is cut. */
  cutRequest(count?: number, filter?: ChunkFilter): void;
  /** The client's connection is cut at the next request, which reaches the server `ms` later. */
  delayRequest(ms: number, count?: number, filter?: ChunkFilter): void;
  /** Keeps replies back, in order, until they are released. */
  holdReplies(): void;
  releaseReplies(): void;
  /** A request that is held reaches the server when it is released, even if its client is gone by then. */
  holdRequests(): void;
  releaseRequests(): void;
  /** Replies take this much longer, from now on. */
  latency(ms: number): void;
  /** New connections are reset at once. Open ones stay. */
  refuse(): void;
  /** New connections are accepted and get no answer; on open ones bytes are dropped in both directions. */
  hang(): void;
  /** Open connections are forgotten, as by a firewall: nothing passes, and neither side is notified. New ones work. */
  silence(): void;
  /** New connections go to this server, and open ones are reset, as the address of a failover service does. */
  moveTo(target: string | number): void;
  /** Resets every open connection. */
  cutAll(): void;
  /** Ends every fault. A connection on which bytes were dropped is reset, since its stream is broken. */
  heal(): void;
  /** Whether a connection of a client ended between these moments, in microseconds of the monotonic clock. */
  closedBetween(from: number, to: number): boolean;
  /**
   * Calls `open` for each connection, those that are open now included, and hands what it returns every chunk that the client
   * sends from now on.
   */
  observe(open: (isNew: boolean) => (chunk: Buffer) => void): void;
  stop(): Promise<void>;
}

interface Cut {
  readonly side: "request" | "reply";
  readonly filter: ChunkFilter;
  /** The request reaches the server after so many milliseconds. */
  readonly delayMs?: number;
}

/** A client, the proxy's own connection to the server for it, and what goes between them. */
interface ProxyLink {
  readonly client: Socket;
  readonly server: Socket;
  readonly requests: ProxyLane;
  readonly replies: ProxyLane;
  readonly listeners: ((chunk: Buffer) => void)[];
  isDoomed: boolean;
  isSilent: boolean;
  hasSwallowed: boolean;
}

const HOST = "127.0.0.1";
const PORTS: Readonly<Record<string, number>> = {
  "redis:": 6379,
  "postgres:": 5432,
  "postgresql:": 5432,
  "mysql:": 3306,
  "http:": 80,
};

function toUrl(target: string | number): URL {
  return new URL(typeof target === "number" ? `tcp://${HOST}:${target}` : target);
}

function addressIn({ hostname, port, protocol }: URL): { readonly host: string; readonly port: number } {
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) || PORTS[protocol] || 0 };
}

/** `target` is a URL, or a port of the loopback address. */
export async function startProxy(target: string | number): Promise<FaultProxy> {
  const url = toUrl(target);
  let address = addressIn(url);
  const links = new Set<ProxyLink>();
  const observers: ((isNew: boolean) => (chunk: Buffer) => void)[] = [];
  const cuts: Cut[] = [];
  const sent = { requests: 0, bytesToServer: 0, bytesToClient: 0 };
  const closings: number[] = [];
  let mode: "pass" | "refuse" | "hang" = "pass";
  let areRequestsHeld = false;
  let areRepliesHeld = false;
  let latencyMs = 0;

  function open(client: Socket): void {
    const server = connect({ ...address, noDelay: true, allowHalfOpen: true });
    const link: ProxyLink = {
      client,
      server,
      requests: startLane(server),
      replies: startLane(client),
      listeners: observers.map((observe) => observe(true)),
      isDoomed: false,
      isSilent: false,
      hasSwallowed: mode === "hang",
    };
    links.add(link);
    link.requests.hold(areRequestsHeld);
    link.replies.hold(areRepliesHeld);
    link.replies.delay(latencyMs);

    client.on("data", (chunk: Buffer) => request(link, chunk));
    client.on("end", () => link.isSilent || link.requests.end());
    // The server still gets what the client sent before it disconnected.
    client.on("close", () => {
      if (!link.isSilent) link.requests.end();
      if (server.destroyed) links.delete(link);
      closings.push(Number(process.hrtime.bigint() / 1_000n));
    });
    server.on("data", (chunk: Buffer) => reply(link, chunk));
    server.on("end", () => link.isSilent || link.replies.end());
    server.on("error", () => mode !== "hang" && !link.isSilent && client.resetAndDestroy());
    server.on("close", () => {
      if (!link.isSilent) link.replies.end();
      // Bytes that are held for a connected client are released to it, or dropped when it disconnects.
      if (client.destroyed) links.delete(link);
    });
  }

  function request(link: ProxyLink, chunk: Buffer): void {
    sent.requests++;
    for (const listen of link.listeners) listen(chunk);
    if (mode === "hang" || link.isSilent) {
      link.hasSwallowed = true;
      return;
    }
    const index = cuts.findIndex(({ filter }) => filter(chunk));
    const [cut] = index < 0 ? [] : cuts.splice(index, 1);
    if (cut?.delayMs !== undefined) {
      link.requests.hold(true);
      link.requests.push(chunk);
      setTimeout(() => link.requests.hold(false), cut.delayMs);
    }
    if (cut?.side === "request") {
      link.client.resetAndDestroy();
      return;
    }
    if (cut?.side === "reply") link.isDoomed = true;
    sent.bytesToServer += chunk.length;
    link.requests.push(chunk);
  }

  function reply(link: ProxyLink, chunk: Buffer): void {
    if (mode === "hang" || link.isSilent) link.hasSwallowed = true;
    else if (link.isDoomed) link.client.resetAndDestroy();
    else {
      sent.bytesToClient += chunk.length;
      link.replies.push(chunk);
    }
  }

  const cut = (count: number, faulty: Cut): void => {
    for (let i = 0; i < count; i++) cuts.push(faulty);
  };
  const reset = (isMeant: (link: ProxyLink) => boolean): void => {
    for (const link of links) if (isMeant(link)) link.client.resetAndDestroy();
  };
  const setRequestsHeld = (isHeld: boolean): void => {
    areRequestsHeld = isHeld;
    for (const { requests } of links) requests.hold(isHeld);
  };
  const setRepliesHeld = (isHeld: boolean): void => {
    areRepliesHeld = isHeld;
    for (const { replies } of links) replies.hold(isHeld);
  };
  const setLatency = (ms: number): void => {
    latencyMs = ms;
    for (const { replies } of links) replies.delay(ms);
  };

  const listener = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    // Broken connections are expected here.
    client.on("error", () => {});
    if (mode === "refuse") client.resetAndDestroy();
    else open(client);
  });
  await once(listener.listen(0, HOST), "listening");
  const { port } = listener.address() as AddressInfo;
  url.hostname = HOST;
  url.port = String(port);

  return {
    port,
    url: url.href,
    get connections() {
      return [...links].filter(({ client }) => !client.destroyed).length;
    },
    get requests() {
      return sent.requests;
    },
    get bytesToServer() {
      return sent.bytesToServer;
    },
    get bytesToClient() {
      return sent.bytesToClient;
    },
    cutReply: (count = 1, filter = () => true) => cut(count, { side: "reply", filter }),
    cutRequest: (count = 1, filter = () => true) => cut(count, { side: "request", filter }),
    delayRequest: (delayMs, count = 1, filter = () => true) =>
      cut(count, { side: "request", filter, delayMs }),
    holdReplies: () => setRepliesHeld(true),
    releaseReplies: () => setRepliesHeld(false),
    holdRequests: () => setRequestsHeld(true),
    releaseRequests: () => setRequestsHeld(false),
    latency: setLatency,
    refuse() {
      mode = "refuse";
    },
    hang() {
      mode = "hang";
    },
    silence() {
      for (const link of links) link.isSilent = true;
    },
    moveTo(next) {
      address = addressIn(toUrl(next));
      reset(() => true);
    },
    cutAll: () => reset(() => true),
    heal() {
      mode = "pass";
      cuts.length = 0;
      setLatency(0);
      setRequestsHeld(false);
      setRepliesHeld(false);
      reset(({ hasSwallowed }) => hasSwallowed);
    },
    closedBetween: (from, to) => closings.some((at) => at >= from && at <= to),
    observe(open) {
      observers.push(open);
      for (const { listeners } of links) listeners.push(open(false));
    },
    async stop() {
      for (const { client, server } of links) {
        client.destroy();
        server.destroy();
      }
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}
