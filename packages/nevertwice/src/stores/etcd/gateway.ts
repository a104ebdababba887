/**
 * Sends requests to the members of an etcd cluster, through the HTTP gateway that every member has. A member that does not
 * answer in time, or that has lost its leader, is passed over: the same request goes to the next one until the time of the
 * call is up. So a request may be applied although an earlier try of it seemed to fail; the answer says if that is possible.
 */
import { NevertwiceError } from "../../core/errors.ts";
import { EtcdError, isStaleToken, isWorthAnotherMember, toStoreError } from "./errors.ts";

/** The part of the platform's `fetch` that the store uses. */
export type EtcdFetch = (url: string, init: RequestInit) => Promise<Response>;

export interface EtcdUser {
  readonly user: string;
  readonly password: string;
}

export interface GatewayOptions {
  readonly endpoints: readonly string[];
  readonly fetch: EtcdFetch;
  readonly credentials: EtcdUser | undefined;
  /** How long one member may take to answer before the next one is asked. */
  readonly memberTimeoutMs: number;
  /** How long all tries of one call may take together. */
  readonly timeoutMs: number;
}

export interface GatewayReply {
  readonly body: unknown;
  /** An earlier try got no clear answer, so this request may have been applied before it was answered. */
  readonly mayBeRepeat: boolean;
}

export interface EtcdGateway {
  readonly endpoints: readonly string[];
  /** Sends a request to one member after the other until one answers. */
  call(path: string, body: object, signal?: AbortSignal): Promise<GatewayReply>;
  /** Asks this member alone, once. Without a body it is a GET of a page outside of the API, and its answer is the text. */
  ask(endpoint: string, path: string, body?: object): Promise<unknown>;
  /** Opens a stream of answers at one member, which is not cut off by a timeout. */
  stream(path: string, body: object, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  close(): void;
}

/** The pause after every member was asked once: a new leader is elected in about a second. */
const ROUND_PAUSE_MS = 100;

export function createGateway(options: GatewayOptions): EtcdGateway {
  const { endpoints, fetch, credentials, memberTimeoutMs, timeoutMs } = options;
  /** The requests that are under way. */
  const open = new Set<AbortController>();
  let isClosed = false;
  let preferred: number | undefined;
  let token: Promise<string> | undefined;

  /** The member that answered last. At first any of them, so that the processes of an application do not all ask the same one. */
  function preferredMember(): number {
    preferred ??= Math.floor(Math.random() * endpoints.length);
    return preferred;
  }

  async function post(
    url: string,
    body: object,
    signal: AbortSignal,
    authorization?: string,
  ): Promise<Response> {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", ...(authorization && { authorization }) },
      body: JSON.stringify(body),
      signal,
    });
    if (!response.ok) throw await errorFrom(response);
    return response;
  }

  /** One request to one member, with a token if the cluster asks for one. */
  async function send<T>(
    endpoint: string,
    path: string,
    body: object,
    signal: AbortSignal,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    if (credentials === undefined) return read(await post(`${endpoint}/v3/${path}`, body, signal));
    for (let tries = 0; ; tries++) {
      token ??= authenticate(endpoint, credentials, signal);
      const used = token;
      try {
        return await read(await post(`${endpoint}/v3/${path}`, body, signal, await used));
      } catch (error) {
        // A token that could not be had is asked for again by the next call.
        if (token === used && (isStaleToken(error) || !(await isKept(used)))) token = undefined;
        if (!isStaleToken(error) || tries > 0) throw error;
      }
    }
  }

  async function authenticate(
    endpoint: string,
    { user, password }: EtcdUser,
    signal: AbortSignal,
  ): Promise<string> {
    const response = await post(`${endpoint}/v3/auth/authenticate`, { name: user, password }, signal);
    return ((await response.json()) as { readonly token: string }).token;
  }

  async function call(path: string, body: object, signal?: AbortSignal): Promise<GatewayReply> {
    const endsAt = performance.now() + timeoutMs;
    let last: unknown;
    for (let tries = 0; ; tries++) {
      if (isClosed) throw closedError();
      const leftMs = endsAt - performance.now();
      if (signal?.aborted || leftMs <= 0) throw toStoreError(last ?? signal?.reason);
      const member = preferredMember();
      const timed = limit(open, Math.min(leftMs, memberTimeoutMs), signal);
      try {
        const reply = await send(endpoints[member] as string, path, body, timed.signal, readJson);
        return { body: reply, mayBeRepeat: tries > 0 };
      } catch (error) {
        last = error;
        if (!isWorthAnotherMember(error)) throw toStoreError(error);
        // Unless another call has moved on already.
        if (preferred === member) preferred = (member + 1) % endpoints.length;
      } finally {
        timed.end();
      }
      if ((tries + 1) % endpoints.length === 0) await pause(ROUND_PAUSE_MS * (0.5 + Math.random()), signal);
    }
  }

  return {
    endpoints,
    call,

    async ask(endpoint, path, body) {
      const timed = limit(open, memberTimeoutMs);
      try {
        if (body !== undefined) return await send(endpoint, path, body, timed.signal, readJson);
        const response = await fetch(`${endpoint}/${path}`, { signal: timed.signal });
        if (!response.ok) throw await errorFrom(response);
        return await response.text();
      } finally {
        timed.end();
      }
    },

    async stream(path, body, signal) {
      const member = preferredMember();
      // The headers must come in time; after that the stream may be silent for as long as nothing changes.
      const timed = limit(open, memberTimeoutMs, signal);
      try {
        return await send(
          endpoints[member] as string,
          path,
          body,
          timed.signal,
          async (response) => response.body as ReadableStream<Uint8Array>,
        );
      } catch (error) {
        timed.end();
        if (isWorthAnotherMember(error) && preferred === member) preferred = (member + 1) % endpoints.length;
        throw toStoreError(error);
      } finally {
        timed.keep();
      }
    },

    close() {
      isClosed = true;
      for (const controller of open) controller.abort(closedError());
    },
  };
}

const readJson = (response: Response): Promise<unknown> => response.json();

async function isKept(token: Promise<string>): Promise<boolean> {
  try {
    await token;
    return true;
  } catch {
    return false;
  }
}

/** The error in an answer, which the gateway writes as JSON. A proxy in front of it may answer in another way. */
async function errorFrom(response: Response): Promise<EtcdError> {
  const text = await response.text();
  try {
    const { message, error, code } = JSON.parse(text) as { message?: string; error?: string; code?: number };
    return new EtcdError(message ?? error ?? text, response.status, code);
  } catch {
    return new EtcdError(text.trim() || `HTTP ${response.status}`, response.status);
  }
}

const closedError = () => new NevertwiceError("unavailable", "the etcd store is closed.");

interface Limited {
  readonly signal: AbortSignal;
  /** Stops the clock. */
  keep(): void;
  /** Stops the clock, and no longer follows the caller's signal. */
  end(): void;
}

/** A signal that fires after `ms`, or when the caller cancels. Until its end it is one of `open`. */
function limit(open: Set<AbortController>, ms: number, caller?: AbortSignal): Limited {
  const controller = new AbortController();
  open.add(controller);
  const timer = setTimeout(() => controller.abort(new Error(`no answer within ${Math.ceil(ms)} ms`)), ms);
  const cancel = () => {
    open.delete(controller);
    controller.abort(caller?.reason);
  };
  if (caller?.aborted) cancel();
  caller?.addEventListener("abort", cancel, { once: true });
  return {
    signal: controller.signal,
    keep: () => clearTimeout(timer),
    end() {
      clearTimeout(timer);
      caller?.removeEventListener("abort", cancel);
      open.delete(controller);
    },
  };
}

/** Resolves after `ms`, or when the caller cancels. */
function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}
