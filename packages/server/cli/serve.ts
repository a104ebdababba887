/** `nevertwice serve`: the server, until it is told to stop. */
import { randomBytes } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { printedConfig, type ServerConfig, withoutPassword } from "../src/config.ts";
import type { NevertwiceServer } from "../src/server.ts";
import { VERSION } from "../src/version.ts";
import { type Command, complain, EXIT, type Exit, print } from "./command.ts";
import { CONFIG_FLAG, configFrom, settingsFlags } from "./settings-flags.ts";
import { paint } from "./terminal.ts";

export const serveCommand: Command = {
  summary: "starts the server: HTTP API, dashboard, and a gateway with --upstream",
  actions: {
    "": {
      summary:
        "Starts the server. SIGTERM and SIGINT let it finish what runs; the second one ends it at once.",
      flags: {
        ...settingsFlags(),
        ...CONFIG_FLAG,
        "print-config": { what: "prints what is set, without secrets, and starts nothing" },
        json: { what: "prints JSON, for programs: with it every line, logs included, is JSON" },
      },
      notes: ["", "Each setting is also a variable: --holds-store is NEVERTWICE_SERVER_HOLDS_STORE."],
      async run(call) {
        const config = configFrom(call);
        if (call.has("print-config")) {
          print(JSON.stringify(printedConfig(config), undefined, 2));
          return EXIT.ok;
        }
        return serve(config, call.has("json"));
      },
    },
  },
};

async function serve(config: ServerConfig, isJson: boolean): Promise<Exit> {
  const { createServer } = await import("../src/server.ts");
  const stopped = firstSignal();
  const server = await createServer(config);
  try {
    const started = await server.listen();
    if (isJson) print(JSON.stringify({ msg: "nevertwice is up", version: VERSION, ...started }));
    else for (const line of await welcome(config, server, started)) print(line);
    const signal = await stopped;
    if (!isJson)
      print(`${signal}: finishing what runs, for up to ${config.drain / 1_000} s; again to end at once`);
  } catch (error) {
    await server.close();
    throw portTaken(error);
  }
  await closed(server, config.drain);
  return EXIT.ok;
}

/** The second one ends the process: whoever asks twice means it. */
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

/** Beyond what the guards wait for, so that it is they who say what was left. */
const GRACE_MS = 2_000;

/** Ends the process, with code 1, if something still runs when its time is over. */
export async function closed(server: NevertwiceServer, drainMs: number): Promise<void> {
  const waiting = new AbortController();
  const late = setTimeout(drainMs + GRACE_MS, "late", { signal: waiting.signal }).catch(() => {});
  const ended = await Promise.race([server.close(), late]);
  waiting.abort();
  if (ended !== "late") return;
  complain("Some requests still ran when their time was over; their claims end with their leases.");
  process.exit(EXIT.failed);
}

/** The same error, or what to do if the port is somebody else's. */
export function portTaken(error: unknown): unknown {
  const { code, port = 0 } = error as { readonly code?: string; readonly port?: number };
  if (code !== "EADDRINUSE") return error;
  const fix = `stop it, or choose another port with --listen 127.0.0.1:${port + 1}`;
  return new Error(`port ${port} is taken: another server may be running; ${fix}.`, { cause: error });
}

async function welcome(
  config: ServerConfig,
  { context }: NevertwiceServer,
  { url, gatewayUrl }: { readonly url: string; readonly gatewayUrl: string | undefined },
): Promise<readonly string[]> {
  const needsToken = await context.access.isRequired();
  return [
    `${paint("bold", `nevertwice ${VERSION}`)} keeps its records in ${withoutPassword(config.store)}`,
    "",
    `  dashboard  ${paint("cyan", `${url}/`)}`,
    ...(gatewayUrl === undefined
      ? []
      : [`  gateway    ${paint("cyan", gatewayUrl)} in front of ${withoutPassword(config.upstream ?? "")}`]),
    "",
    "Mark an event, mark it again (first is true once only), and look at the key that it left:",
    "",
    ...curlLines(url, needsToken).map((line) => `  ${line}`),
    "",
    ...(needsToken
      ? ["NEVERTWICE_TOKEN is your access token; `nevertwice access create` makes one.", ""]
      : []),
  ];
}

/** An event of its own for each start, so that they say the same on a store that was used before. */
function curlLines(url: string, needsToken: boolean): readonly string[] {
  const id = `order-${randomBytes(3).toString("hex")}`;
  const curl = `curl -sw '\\n'${needsToken ? ' -H "Authorization: Bearer $NEVERTWICE_TOKEN"' : ""}`;
  const mark = `${curl} -H 'Content-Type: application/json' -d '${JSON.stringify({ source: "shop", id })}' ${url}/v1/events`;
  return [mark, mark, `${curl} '${url}/v1/keys?search=${id}'`];
}
