/** `nevertwice serve`: runs the server until a signal stops it. */
import { randomBytes } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { printedConfig, type ServerConfig, withoutPassword } from "../src/config.ts";
import { longestDepartureMs } from "../src/departure.ts";
import type { NevertwiceServer } from "../src/server.ts";
import { VERSION } from "../src/version.ts";
import { isUnreachable } from "./api.ts";
import { type Command, type CommandResult, complain, EXIT, print } from "./command.ts";
import { CONFIG_FLAG, configFrom, settingsFlags } from "./settings-flags.ts";
import { paint } from "./terminal.ts";

export const serveCommand: Command = {
  summary: "start the server: HTTP API, dashboard, and a gateway with --upstream",
  actions: {
    "": {
      summary:
        "Starts the server. SIGTERM and SIGINT stop it after its running requests; a second signal stops it at once.",
      flags: {
        ...settingsFlags(),
        ...CONFIG_FLAG,
        "print-config": { what: "print the configuration without secrets, and exit" },
        json: { what: "print every line as JSON, for programs" },
      },
      notes: [
        "",
        "Each setting is also an environment variable: --holds-store is NEVERTWICE_SERVER_HOLDS_STORE.",
      ],
      showsProgress: true,
      async run(call) {
        const config = configFrom(call);
        if (call.has("print-config")) {
          const data = printedConfig(config);
          return { data, lines: [JSON.stringify(data, undefined, 2)] };
        }
        return serve(config, call.has("json"));
      },
    },
  },
};

async function serve(config: ServerConfig, isJson: boolean): Promise<CommandResult> {
  const { createServer } = await import("../src/server.ts");
  const stopped = firstSignal();
  const started = stopStartAfter(config.drain, stopped);
  const server = await openWithRetries(() => createServer(config), stopped, isJson);
  let signal: NodeJS.Signals;
  try {
    const urls = await server.listen();
    if (isJson) print(JSON.stringify({ msg: "nevertwice is up", version: VERSION, ...urls }));
    else for (const line of await welcome(config, server, urls)) print(line);
    signal = await stopped;
    started();
    if (!isJson)
      print(
        `${signal}: waiting up to ${stopMs(config) / 1_000} s for running requests; send it again to stop at once`,
      );
  } catch (error) {
    await server.close();
    throw explainPortInUse(error);
  }
  await closeInTime(server, stopMs(config));
  return { data: { stoppedBy: signal }, lines: ["stopped: every request has finished"] };
}

function stopMs({ drainDelay, drain }: ServerConfig): number {
  return longestDepartureMs(drainDelay) + drain;
}

/** How long to wait for a store when the server starts: a database that starts at the same time needs about this long. */
const OPEN_MS = 30_000;
const PAUSE_MS = 500;

/** Calls `open` again while the store cannot be reached, for `OPEN_MS` or until a signal stops the server. */
async function openWithRetries<T>(
  open: () => Promise<T>,
  stopped: Promise<unknown>,
  isJson: boolean,
): Promise<T> {
  const deadline = performance.now() + OPEN_MS;
  let isStopped = false;
  void stopped.then(() => {
    isStopped = true;
  });
  for (let tries = 1; ; tries++) {
    try {
      return await open();
    } catch (error) {
      if (!isUnreachable(error) || isStopped || performance.now() > deadline) throw error;
      const said = `${(error as Error).message} Retrying for ${OPEN_MS / 1_000} s.`;
      if (tries === 1) complain(isJson ? JSON.stringify({ msg: said }) : said);
      await Promise.race([setTimeout(PAUSE_MS), stopped]);
    }
  }
}

/**
 * Ends the process with code 1 if a signal arrives during the start and the store does not answer within the drain time.
 * Nothing runs yet that would have to finish. Returns a function to call once the start is complete.
 */
function stopStartAfter(drainMs: number, stopped: Promise<unknown>): () => void {
  let isStarted = false;
  void stopped.then(async () => {
    await setTimeout(drainMs + GRACE_MS, undefined, { ref: false });
    if (isStarted) return;
    complain("The server was told to stop before it had started, and its store did not answer in time.");
    process.exit(EXIT.failed);
  });
  return () => {
    isStarted = true;
  };
}

/** Resolves with the first signal. A second signal ends the process at once. */
export function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false;
    const onSignal = (signal: NodeJS.Signals) => {
      if (isStopping) process.exit(EXIT.failed);
      isStopping = true;
      resolve(signal);
    };
    process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  });
}

/** Longer than the guards wait, so that they can report what was left. */
const GRACE_MS = 2_000;

/** Closes the server. If it does not close in time, ends the process with code 1. */
export async function closeInTime(server: NevertwiceServer, drainMs: number): Promise<void> {
  const waiting = new AbortController();
  const late = setTimeout(drainMs + GRACE_MS, "late", { signal: waiting.signal }).catch(() => {});
  const ended = await Promise.race([server.close(), late]);
  waiting.abort();
  if (ended === "late") {
    complain("Some requests did not finish in time. Their claims end when their leases end.");
    process.exit(EXIT.failed);
  }
  endSoon();
}

/**
 * Everything is closed, and the process ends by itself. A call to a store that does not answer, or a driver that keeps
 * reconnecting, must not keep it running, because no code waits for the result.
 */
function endSoon(): void {
  globalThis.setTimeout(() => process.exit(), GRACE_MS).unref();
}

/** Explains what to do if another process uses the port; returns other errors unchanged. */
export function explainPortInUse(error: unknown): unknown {
  const { code, port = 0 } = error as { readonly code?: string; readonly port?: number };
  if (code !== "EADDRINUSE") return error;
  const fix = `stop it, or choose another port with --listen 127.0.0.1:${port + 1}`;
  return new Error(`port ${port} is in use, perhaps by another server; ${fix}.`, { cause: error });
}

async function welcome(
  config: ServerConfig,
  { context }: NevertwiceServer,
  { url, gatewayUrl }: { readonly url: string; readonly gatewayUrl: string | undefined },
): Promise<readonly string[]> {
  const needsToken = await context.access.isRequired();
  return [
    `${paint("bold", `nevertwice ${VERSION}`)} stores its records in ${withoutPassword(config.store)}`,
    "",
    `  dashboard  ${paint("cyan", `${url}/`)}`,
    ...(gatewayUrl === undefined
      ? []
      : [`  gateway    ${paint("cyan", gatewayUrl)} in front of ${withoutPassword(config.upstream ?? "")}`]),
    "",
    "Mark an event twice (only the first call returns first: true), then list its key:",
    "",
    ...curlLines(url, needsToken).map((line) => `  ${line}`),
    "",
    ...(needsToken
      ? ["NEVERTWICE_TOKEN is your access token; `nevertwice access create` creates one.", ""]
      : []),
  ];
}

/** Uses a new event for each start, so that the example works on a store that was used before. */
function curlLines(url: string, needsToken: boolean): readonly string[] {
  const id = `order-${randomBytes(3).toString("hex")}`;
  const curl = `curl -sw '\\n'${needsToken ? ' -H "Authorization: Bearer $NEVERTWICE_TOKEN"' : ""}`;
  const mark = `${curl} -H 'Content-Type: application/json' -d '${JSON.stringify({ source: "shop", id })}' ${url}/v1/events`;
  return [mark, mark, `${curl} '${url}/v1/keys?search=${id}'`];
}
