/**
 * How a command asks: the routes of the HTTP API, over HTTP if a server is named, else of a server that listens to
 * nobody and is opened on the store for this one command.
 */
import { randomBytes } from "node:crypto";
import { isNevertwiceError } from "nevertwice";
import { type Call, complain, EXIT, type Exit, type Flags, JSON_FLAG, print, UsageError } from "./command.ts";
import { CONFIG_FLAG, configFrom, settingsFlags } from "./settings-flags.ts";
import { paint, plain } from "./terminal.ts";

export interface Asking {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export interface Answered {
  readonly status: number;
  /** As JSON says; text that is none is handed over as it is. */
  readonly body: unknown;
}

export type Ask = (asking: Asking) => Promise<Answered>;

export const REACH_FLAGS: Flags = {
  server: { value: "URL", what: "asks this server; without it, the store is opened directly" },
  token: {
    value: "TOKEN",
    what: "the access token for --server; the variable NEVERTWICE_TOKEN hides it from others",
  },
  ...settingsFlags(["store", "holdsStore", "namespace"]),
  ...CONFIG_FLAG,
  ...JSON_FLAG,
};

const TIMEOUT_MS = 30_000;

/** Hands over a way to ask, and closes what it opened. */
export async function reaching(call: Call, work: (ask: Ask) => Promise<Exit>): Promise<Exit> {
  const server = call.text("server");
  if (server !== undefined) return work(overHttp(server, call.text("token") ?? process.env.NEVERTWICE_TOKEN));
  if (call.given("token") !== undefined)
    throw new UsageError("--token is for --server URL; a store asks for none.");
  return directly(call, work);
}

async function directly(call: Call, work: (ask: Ask) => Promise<Exit>): Promise<Exit> {
  const { createServer } = await import("../src/server.ts");
  // Whoever can open the store may do everything to it. The token is this process's own, and ends with it.
  const accessToken = randomBytes(32).toString("base64url");
  const { upstream: _, ...config } = configFrom(call);
  const opened = await createServer({ ...config, accessToken, logLevel: "silent" });
  try {
    return await work(async ({ method, path, query, headers, body }) => {
      const { statusCode, payload } = await opened.app.inject({
        method,
        url: `${path}${searchOf(query)}`,
        headers: { host: "localhost", authorization: `Bearer ${accessToken}`, ...headers },
        ...(body !== undefined && { payload: body as object }),
      });
      return { status: statusCode, body: readBody(payload) };
    });
  } finally {
    await opened.close();
  }
}

function overHttp(server: string, token: string | undefined): Ask {
  if (!URL.canParse(server)) throw new UsageError("--server is an address such as http://127.0.0.1:4747.");
  return async ({ method, path, query, headers, body }) => {
    const url = new URL(`${path}${searchOf(query)}`, server);
    const response = await fetch(url, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).catch((cause: unknown) => {
      throw new Unreachable(`${url.origin} does not answer: is \`nevertwice serve\` running there?`, {
        cause,
      });
    });
    return { status: response.status, body: readBody(await response.text()) };
  };
}

function searchOf(query: Asking["query"] = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(
    Object.fromEntries(given.map(([name, value]) => [name, String(value)])),
  ).toString();
  return text === "" ? "" : `?${text}`;
}

function readBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

class Unreachable extends Error {
  override readonly name = "Unreachable";
}

const NETWORK = /^(ECONN|ENOTFOUND|EAI_|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE)/;

/** Whoever is needed does not answer: later it may. */
export function isUnreachable(error: unknown): boolean {
  if (error instanceof Unreachable || isNevertwiceError(error, "unavailable")) return true;
  const { code, errors } = (error ?? {}) as { readonly code?: unknown; readonly errors?: readonly unknown[] };
  return (typeof code === "string" && NETWORK.test(code)) || (errors?.some(isUnreachable) ?? false);
}

/** An answer that is a refusal: said, with the exit code that fits. */
export function refused(call: Call, { status, body }: Answered): Exit {
  const { code, reason, detail, title } = (typeof body === "object" && body !== null ? body : {}) as {
    readonly [Name in "code" | "reason" | "detail" | "title"]?: string;
  };
  const name = code ?? reason ?? String(status);
  if (call.has("json")) print(JSON.stringify(body));
  else complain(`${paint("red", name, process.stderr)}: ${plain(detail ?? title ?? body)}`);
  if (status === 400) return EXIT.usage;
  return status === 503 || status === 502 || status === 504 ? EXIT.unavailable : EXIT.failed;
}

/** Asks once, and shows what came: as JSON, or as `show` says. */
export function asking(
  call: Call,
  request: Asking,
  // biome-ignore lint/suspicious/noExplicitAny: what a server answers is what its OpenAPI document says.
  show: (body: any) => readonly string[],
): Promise<Exit> {
  return reaching(call, async (ask) => {
    const answered = await ask(request);
    if (answered.status >= 400) return refused(call, answered);
    if (call.has("json")) print(JSON.stringify(answered.body));
    else for (const line of show(answered.body)) print(line);
    return EXIT.ok;
  });
}
