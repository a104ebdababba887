/** The doors of the table: a service with an adapter, or a gateway in front of a plain service. All are processes of their own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { FOLDER, printed, serving, stop } from "../cli-process.ts";
import { createLedger, type Ledger } from "./ledger.ts";

export type DoorName =
  | "Express"
  | "Express with reconcile"
  | "Fastify"
  | "Hono"
  | "Nest"
  | "fetch"
  | "gateway"
  | "gateway with reconcile";

export const DOORS: readonly DoorName[] = [
  "Express",
  "Express with reconcile",
  "Fastify",
  "Hono",
  "Nest",
  "fetch",
  "gateway",
  "gateway with reconcile",
];

export const GATEWAYS: readonly DoorName[] = ["gateway", "gateway with reconcile"];

export const reconciles = (door: DoorName): boolean => door.endsWith("with reconcile");

export interface ClientStage {
  readonly door: DoorName;
  readonly port: number;
  readonly ledger: Ledger;
  /** Kills the service as a lack of memory does, and starts it again on the same port. */
  restart(): Promise<void>;
  /** The same with the gateway in front of it, which finds its keys in its store. */
  restartGateway(): Promise<void>;
  close(): Promise<void>;
}

interface Service {
  readonly port: number;
  kill(): Promise<void>;
}

const RESTART_MS = 2_000;
const PROGRAM = new URL("services/service.js", import.meta.url).pathname;

async function startService(setting: object): Promise<Service> {
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify(setting)], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  const port = Number(/listening on (\d+)/.exec(await printed(child, "\n"))?.[1]);
  return {
    port,
    async kill() {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "close");
    },
  };
}

export async function openStage(door: DoorName): Promise<ClientStage> {
  const folder = mkdtempSync(join(FOLDER, "clients-"));
  const ledger = createLedger(join(folder, "ledger"));
  const file = join(folder, "keys.db");
  const isGateway = GATEWAYS.includes(door);
  const kind = isGateway ? "plain" : door.split(" ")[0]?.toLowerCase();
  const setting = { kind, ledger: ledger.file, file, port: 0, reconciles: reconciles(door) };
  let service = await startService(setting);
  const config = join(folder, "gateway.toml");
  const startGateway = (port: number) => {
    writeFileSync(config, toConfig({ port, upstream: service.port, reconciles: reconciles(door) }));
    return serving("--config", config, "--store", `sqlite:${file}`);
  };
  let gateway = isGateway ? await startGateway(0) : undefined;
  const port = gateway === undefined ? service.port : Number(new URL(gateway.gatewayUrl).port);
  await warm(port);
  return {
    door,
    port,
    ledger,
    async restart() {
      const { port } = service;
      await service.kill();
      // As under a supervisor: a client that repeats without a pause finds no service.
      await setTimeout(RESTART_MS);
      service = await startService({ ...setting, port });
    },
    async restartGateway() {
      gateway?.child.kill("SIGKILL");
      await gateway?.ending;
      await setTimeout(RESTART_MS);
      gateway = await startGateway(port);
    },
    async close() {
      await Promise.all([service.kill(), gateway && stop(gateway)]);
    },
  };
}

/** The first claim opens the store, which takes time on a busy machine. No client has to wait for that. */
async function warm(port: number): Promise<void> {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": "warm" };
  const init = { method: "POST", headers, body: '{"work":"work.none.warm.1"}' };
  const { ok } = await fetch(`http://127.0.0.1:${port}/orders`, init);
  if (!ok) await warm(port);
}

/** The environment variable of the token by which the gateway asks the service. */
export const OUTCOME_TOKEN = "OUTCOME_TOKEN";

interface GatewayPlan {
  readonly port: number;
  /** The port of the service. */
  readonly upstream: number;
  readonly reconciles: boolean;
}

function toConfig({ port, upstream, reconciles }: GatewayPlan): string {
  const service = `http://127.0.0.1:${upstream}`;
  const route = (path: string, more = "") =>
    `[[routes]]
path = "${path}"
scope = "anyone"
${more}
${reconciles ? `reconcile = { url = "${service}/outcome", token = "env:${OUTCOME_TOKEN}" }` : ""}
`;
  return [
    `upstream = "${service}"\ngateway_listen = "127.0.0.1:${port}"\n`,
    route("/v1/charges", 'profile = "stripe-v1"'),
    route("/waiting/*", 'wait = "30s"'),
    route("/required/waiting/*", 'required = true\nwait = "30s"'),
    route("/required/*", "required = true"),
    route("/*"),
  ].join("\n");
}
