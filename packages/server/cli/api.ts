/**
 * How commands call the HTTP API: over HTTP if `--server` is given, else through a server in this process that does not
 * listen and is opened on the store for this one command.
 */
import { randomBytes } from "node:crypto";
import { isNevertwiceError } from "nevertwice";
import {
  type CommandCall,
  type CommandResult,
  EXIT,
  type Flags,
  JSON_FLAG,
  Refused,
  UsageError,
} from "./command.ts";
import { requireExistingFiles } from "./existing-file.ts";
import { CONFIG_FLAG, configFrom, settingsFlags } from "./settings-flags.ts";
import { plain } from "./terminal.ts";

export interface ApiCall {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export interface ApiReply {
  readonly status: number;
  /** The parsed JSON; text that is not JSON stays text. */
  readonly body: unknown;
}

export type CallApi = (call: ApiCall) => Promise<ApiReply>;

export const API_FLAGS: Flags = {
  server: { value: "URL", what: "URL of a running server; default: open the store directly" },
  token: {
    value: "TOKEN",
    what: "the access token for --server; better set the variable NEVERTWICE_TOKEN, which other users cannot see",
  },
  ...settingsFlags(["store", "holdsStore", "outboxStore", "namespace"]),
  ...CONFIG_FLAG,
  ...JSON_FLAG,
};

const TIMEOUT_MS = 30_000;

interface StoreUse {
  /** The command may be the first to use the store, so a SQLite file that does not exist is created; default false. */
  readonly mayCreate?: boolean;
}

/** Calls `work` with a function that calls the API, and closes the store afterwards. */
export async function withApi<T>(
  call: CommandCall,
  work: (callApi: CallApi) => Promise<T>,
  use: StoreUse = {},
): Promise<T> {
  const server = call.text("server");
  if (server !== undefined)
    return work(createHttpApi(server, call.text("token") ?? process.env.NEVERTWICE_TOKEN));
  if (call.given("token") !== undefined)
    throw new UsageError("--token works only with --server URL; a store needs no token.");
  return withStoreApi(call, work, use);
}

async function withStoreApi<T>(
  call: CommandCall,
  work: (callApi: CallApi) => Promise<T>,
  { mayCreate = false }: StoreUse,
): Promise<T> {
  const [{ createServer }, { sentError }] = await Promise.all([
    import("../src/server.ts"),
    import("../src/problems.ts"),
  ]);
  // A user who can open the store may do everything. This token exists only in this process.
  const accessToken = randomBytes(32).toString("base64url");
  const { upstream: _, ...config } = configFrom(call);
  if (!mayCreate) requireExistingFiles(config);
  const opened = await createServer({ ...config, accessToken, logLevel: "silent" });
  try {
    return await work(async ({ method, path, query, headers, body }) => {
      const { statusCode, payload, raw } = await opened.app.inject({
        method,
        url: `${path}${queryString(query)}`,
        headers: { host: "localhost", authorization: `Bearer ${accessToken}`, ...headers },
        ...(body !== undefined && { payload: body as object }),
      });
      // The problem document does not say what is wrong with the store, since anybody may read it. This user may know.
      const error = sentError(raw.res);
      if (statusCode >= 500 && error !== undefined) throw error;
      return { status: statusCode, body: readBody(payload) };
    });
  } finally {
    await opened.close();
  }
}

function createHttpApi(server: string, token: string | undefined): CallApi {
  if (!URL.canParse(server)) throw new UsageError("--server must be a URL such as http://127.0.0.1:4747.");
  return async ({ method, path, query, headers, body }) => {
    const url = new URL(`${path}${queryString(query)}`, server);
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
      throw new Unreachable(`${url.origin} does not answer. Check that \`nevertwice serve\` runs there.`, {
        cause,
      });
    });
    return { status: response.status, body: readBody(await response.text()) };
  };
}

function queryString(query: ApiCall["query"] = {}): string {
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

/** Whether the store or the server does not answer, so that a later try may succeed. */
export function isUnreachable(error: unknown): boolean {
  if (error instanceof Unreachable || isNevertwiceError(error, "unavailable")) return true;
  const { code, errors } = (error ?? {}) as { readonly code?: unknown; readonly errors?: readonly unknown[] };
  return (typeof code === "string" && NETWORK.test(code)) || (errors?.some(isUnreachable) ?? false);
}

/** The refusal of the API as an error of the command. */
export function toRefused({ status, body }: ApiReply): Refused {
  const { code, reason, detail, title } = (typeof body === "object" && body !== null ? body : {}) as {
    readonly [Name in "code" | "reason" | "detail" | "title"]?: string;
  };
  const name = code ?? reason ?? String(status);
  const exit =
    status === 400
      ? EXIT.usage
      : status === 503 || status === 502 || status === 504
        ? EXIT.unavailable
        : EXIT.failed;
  return new Refused(name, `${name}: ${plain(detail ?? title ?? body)}`, { exit, details: body });
}

/** Calls the API once. The result is the body of the answer, and for people the lines of `show`. */
export function callApiOnce(
  call: CommandCall,
  request: ApiCall,
  // biome-ignore lint/suspicious/noExplicitAny: the type of the body depends on the route.
  show: (body: any) => readonly string[],
  use?: StoreUse,
): Promise<CommandResult> {
  return withApi(call, async (callApi) => toResult(await callApi(request), show), use);
}

/** Throws `Refused` if the API refused the call. */
// biome-ignore lint/suspicious/noExplicitAny: the type of the body depends on the route.
export function toResult(reply: ApiReply, show: (body: any) => readonly string[]): CommandResult {
  if (reply.status >= 400) throw toRefused(reply);
  return { data: reply.body, lines: show(reply.body) };
}
