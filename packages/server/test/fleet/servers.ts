/** Processes of the built server, each of which is stopped as its operator would, and started again on its ports. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { freePort } from "../../../nevertwice/test/services/ports.ts";
import { MAIN } from "../cli-process.ts";
import type { ServerPorts } from "./balancer.ts";

export interface Fleet {
  readonly ports: readonly ServerPorts[];
  /** Sends SIGTERM, waits for the end, and starts the server again. Throws unless it ended with code 0. */
  restart(index: number): Promise<void>;
  end(): void;
}

export interface FleetOptions {
  readonly count: number;
  /** The flags of each server, besides its addresses. */
  readonly flags: Readonly<Record<string, string>>;
  /** What its environment holds in addition. */
  readonly env?: Readonly<Record<string, string>>;
}

export async function startFleet({ count, flags, env = {} }: FleetOptions): Promise<Fleet> {
  const ports: ServerPorts[] = [];
  for (let index = 0; index < count; index++)
    ports.push({ api: await freePort(), gateway: await freePort() });
  const running: ChildProcess[] = [];

  async function start(index: number): Promise<void> {
    const { api, gateway } = ports[index] as ServerPorts;
    const given = { ...flags, listen: `127.0.0.1:${api}`, "gateway-listen": `127.0.0.1:${gateway}` };
    const args = Object.entries(given).flatMap(([name, value]) => [`--${name}`, value]);
    const child = spawn(process.execPath, [MAIN, "serve", "--json", "--log-level", "error", ...args], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, ...env },
    });
    running[index] = child;
    await new Promise<void>((resolve, reject) => {
      child.stdout?.on("data", (chunk) => String(chunk).includes("nevertwice is up") && resolve());
      child.once("exit", (code, signal) => reject(new Error(`a server ended with ${code ?? signal}`)));
    });
  }

  const end = () => {
    for (const child of running) child.kill("SIGKILL");
  };
  try {
    await Promise.all(ports.map((_, index) => start(index)));
  } catch (error) {
    end();
    throw error;
  }
  return {
    ports,
    async restart(index) {
      const child = running[index] as ChildProcess;
      const exit = once(child, "exit");
      child.kill("SIGTERM");
      const [code, signal] = await exit;
      if (code !== 0) throw new Error(`server ${index} ended with ${code ?? signal}`);
      await start(index);
    },
    end,
  };
}
