/**
 * Sends a request on to the service and its answer back, both as they come. It sends a request once and never again.
 *
 * `forward` resolves when the answer was given on its way whole, and rejects if it could not be: with
 * `upstream-unreachable` if nothing has left, with `upstream-lost` if something has. What was begun of the answer is
 * then the caller's to cut off.
 */
import { Agent, type ClientRequest, type IncomingMessage, request, type ServerResponse } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { type BlockList, isIP, type Socket } from "node:net";
import { lost, unreachable, unsendable } from "./failure.ts";
import { hasBody, requestLines, responseLines, trailerPairs } from "./header-lines.ts";

export interface ProxyOptions {
  readonly upstream: string;
  /** How long the head of an answer is waited for. */
  readonly timeoutMs: number;
  /** Whether the service sees the Host that the client called, or its own. */
  readonly host: "client" | "upstream";
  readonly trusted: BlockList;
  /** Names of headers that Connection cannot take away, in lower case. */
  readonly kept: ReadonlySet<string>;
}

export interface ForwardHow {
  /** Of the attempt. Such a request is carried to its end also if its client goes away. */
  readonly fence?: number | undefined;
  /** Whether the service is asked if it wants the body, as the client wishes. */
  readonly expects?: boolean;
}

export interface ReverseProxy {
  forward(req: IncomingMessage, res: ServerResponse, how?: ForwardHow): Promise<void>;
  /** A request to the service whose body and answer are the caller's. */
  open(req: IncomingMessage, lines: readonly string[]): ClientRequest;
  lines(req: IncomingMessage, how: ForwardHow): string[];
  close(): void;
}

/** Below what services keep idle connections for, unless they say otherwise: a request must not meet their end. */
const IDLE_MS = 4_000;
const MAX_IDLE = 256;
const NOTHING = new Uint8Array();

export function createProxy(options: ProxyOptions): ReverseProxy {
  const { trusted, kept } = options;
  const url = new URL(options.upstream);
  const isTls = url.protocol === "https:";
  const how = { keepAlive: true, maxFreeSockets: MAX_IDLE, timeout: IDLE_MS };
  const agent = isTls ? new TlsAgent(how) : new Agent(how);
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  const base = url.pathname === "/" ? "" : url.pathname.replace(/\/$/, "");
  const target = {
    agent,
    host: hostname,
    port: url.port === "" ? (isTls ? 443 : 80) : Number(url.port),
    setHost: false,
    ...(isTls && isIP(hostname) === 0 && { servername: hostname }),
  };
  const host = options.host === "upstream" ? url.host : undefined;

  const proxy: ReverseProxy = {
    lines: (req, { fence, expects = false }) => requestLines(req, { host, trusted, kept, fence, expects }),
    open(req, lines) {
      const { method = "GET", url: path = "/" } = req;
      const start = isTls ? tlsRequest : request;
      return start({ ...target, method, path: base + originForm(path), headers: lines as string[] });
    },
    async forward(req, res, forwarded = {}) {
      let upstream: ClientRequest;
      try {
        upstream = proxy.open(req, proxy.lines(req, forwarded));
      } catch (error) {
        throw unsendable(error);
      }
      await new Passage({ req, res, upstream, timeoutMs: options.timeoutMs, how: forwarded }).over;
    },
    close: () => agent.destroy(),
  };
  return proxy;
}

interface PassageParts {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly upstream: ClientRequest;
  readonly timeoutMs: number;
  readonly how: ForwardHow;
}

/** One request on its way to the service, and its answer on the way back. */
class Passage {
  readonly over: Promise<void>;
  readonly #parts: PassageParts;
  #resolve!: () => void;
  #reject!: (error: Error) => void;
  /** Whether something may have reached the service. */
  #isSent = false;
  #isOver = false;
  #answer: IncomingMessage | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: PassageParts) {
    const { req, res, upstream } = parts;
    this.#parts = parts;
    this.over = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    upstream.once("socket", (socket) => this.#onSocket(socket));
    upstream.once("response", (answer) => this.#onAnswer(answer));
    upstream.on("information", ({ statusCode, headers }) => tellMore(res, statusCode, headers.link));
    upstream.on("error", (error) => this.#onError(error));
    res.once("close", () => this.#onClosed());
    this.#waitForHead();
    if (parts.how.expects) {
      upstream.once("continue", () => {
        res.writeContinue();
        this.#sendBody();
      });
      upstream.flushHeaders();
    } else if (hasBody(req)) this.#sendBody();
    else upstream.end();
  }

  #onSocket(socket: Socket): void {
    const sent = () => {
      this.#isSent = true;
    };
    if (!socket.connecting) sent();
    else socket.once("encrypted" in socket ? "secureConnect" : "connect", sent);
  }

  #sendBody(): void {
    const { req, upstream } = this.#parts;
    req.pipe(upstream, { end: false });
    req.on("data", () => this.#waitForHead());
    req.once("end", () => {
      const trailers = req.rawTrailers.length === 0 ? [] : trailerPairs(req);
      if (trailers.length > 0) upstream.addTrailers(trailers);
      upstream.end();
    });
    // Half a body must not pass for a whole one.
    req.once("close", () => {
      if (!req.complete) upstream.destroy(new Error("the client went away before its request was whole"));
    });
  }

  #onAnswer(answer: IncomingMessage): void {
    const { res, how } = this.#parts;
    this.#answer = answer;
    clearTimeout(this.#timer);
    try {
      res.writeHead(answer.statusCode ?? 502, answer.statusMessage ?? "", responseLines(answer));
    } catch (error) {
      // What the service sends must never end the process.
      this.#fail(lost("the service behind this gateway gave an answer that cannot be passed on", error));
      answer.destroy();
      return;
    }
    // A head that comes alone is meant to be seen; one whose answer is kept is kept with it.
    if (how.fence === undefined || isEvents(answer)) setImmediate(() => this.#flushHead());
    answer.on("error", (error) => this.#onError(error));
    answer.once("end", () => this.#onEnd(answer));
    answer.pipe(res, { end: false });
  }

  #flushHead(): void {
    const { res } = this.#parts;
    // Not flushHeaders, which sends a head as UTF-8: the client gets the bytes that the service sent.
    if (!this.#isOver && !res.destroyed && !res.writableEnded) res.write(NOTHING);
  }

  #onEnd(answer: IncomingMessage): void {
    if (!answer.complete || this.#isOver) return;
    const { req, res, upstream } = this.#parts;
    this.#isOver = true;
    // It was answered before it was sent whole: nobody wants the rest.
    if (!upstream.writableEnded) {
      req.unpipe(upstream);
      upstream.destroy();
    }
    const trailers = answer.rawTrailers.length === 0 ? [] : trailerPairs(answer);
    if (trailers.length > 0) res.addTrailers(trailers);
    res.end();
    this.#resolve();
  }

  #onError(error: Error): void {
    if (this.#isOver) return;
    // Who answers before it has read everything may close its ear: the answer counts.
    if (this.#answer?.complete) return;
    this.#fail(
      this.#isSent
        ? lost("the service behind this gateway went away before its answer was whole", error)
        : unreachable(error),
    );
  }

  #onClosed(): void {
    const { res, upstream } = this.#parts;
    if (this.#isOver || res.writableFinished) return;
    this.#fail(lost("the client went away"));
    upstream.destroy();
  }

  #waitForHead(): void {
    if (this.#answer !== undefined || this.#isOver) return;
    if (this.#timer !== undefined) {
      this.#timer.refresh();
      return;
    }
    const { timeoutMs, upstream } = this.#parts;
    this.#timer = setTimeout(() => {
      this.#fail(
        this.#isSent
          ? lost(`the service behind this gateway did not answer within ${timeoutMs} ms`)
          : unreachable(new Error("no connection in time")),
      );
      upstream.destroy();
    }, timeoutMs);
  }

  #fail(error: Error): void {
    const { req, upstream } = this.#parts;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#answer?.unpipe();
    // The rest is read by nobody; it flows away, so that the answer gets through.
    req.unpipe(upstream);
    req.resume();
    this.#reject(error);
  }
}

function isEvents({ headers }: IncomingMessage): boolean {
  return headers["content-type"]?.toLowerCase().startsWith("text/event-stream") === true;
}

/** What the service says before its answer; node can tell on only some of it. */
function tellMore(res: ServerResponse, status: number, link: string | string[] | undefined): void {
  if (res.headersSent || res.destroyed) return;
  if (status === 102) res.writeProcessing();
  else if (status === 103 && link !== undefined)
    res.writeEarlyHints({ link: [link].flat().flatMap((line) => line.split(/,\s*(?=<)/)) });
}

/** Path and query, also where a client sent the whole address. */
function originForm(target: string): string {
  if (target.startsWith("/") || target === "*") return target;
  const start = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i.exec(target);
  if (start === null) return `/${target}`;
  const rest = target.slice(start[0].length);
  return rest.startsWith("/") ? rest : `/${rest}`;
}
