/** The built server with a gateway, in a separate process, so that its crash does not end the test. */
import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tomlName } from "../../src/server-settings.ts";
import { FOLDER, printed, start, words } from "../cli-process.ts";

export interface GatewayProcess {
  readonly port: number;
  readonly apiUrl: string;
  /** How it ended and what it printed, if it is no longer running. */
  ended(): string | undefined;
  /** What it has logged as an error. */
  errors(): string;
  residentBytes(): number;
  descriptors(): number;
  stop(): void;
}

/** `settings` by their names in code, durations in milliseconds. */
export interface GatewaySettings {
  readonly upstreamPort: number;
  readonly settings?: Readonly<Record<string, number>>;
}

const ROUTES = `
[[routes]]
path = "/payments/*"
methods = ["POST", "PATCH", "PUT", "DELETE"]
required = true
scope = "anyone"
max_body_bytes = 10000

[[routes]]
path = "/orders"
methods = ["POST", "PATCH", "PUT", "DELETE"]
required = true
scope = { header = "X-Tenant" }

[[routes]]
path = "/api/*"
scope = "anyone"
`;

let started = 0;

export async function startGateway({
  upstreamPort,
  settings = {},
}: GatewaySettings): Promise<GatewayProcess> {
  const file = join(FOLDER, `gateway-${++started}.toml`);
  const lines = Object.entries(settings).map(
    ([name, value]) => `${tomlName(name)} = "${value}${name.endsWith("Timeout") ? "ms" : ""}"\n`,
  );
  writeFileSync(file, `upstream = "http://127.0.0.1:${upstreamPort}"\n${lines.join("")}${ROUTES}`);
  const addresses = "--listen 127.0.0.1:0 --gateway-listen 127.0.0.1:0";
  const child = start(
    ...words(`serve --json --store memory: ${addresses} --log-level error --config ${file}`),
  );
  const { url, gatewayUrl } = JSON.parse(await printed(child, "\n")) as Record<"url" | "gatewayUrl", string>;
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk) => {
      said = (said + chunk).slice(-4_000);
    });
  return {
    port: Number(new URL(gatewayUrl).port),
    apiUrl: url,
    ended: () => endOf(child, said),
    errors: () => said,
    residentBytes: () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]) * 1_024,
    descriptors: () => readdirSync(`/proc/${child.pid}/fd`).length,
    stop: () => child.kill("SIGKILL"),
  };
}

function endOf({ exitCode, signalCode }: ChildProcess, said: string): string | undefined {
  if (exitCode === null && signalCode === null) return undefined;
  return `the gateway's process ended with ${exitCode ?? signalCode}: ${said}`;
}
