/** Processes of the built server, which are killed and started again on the same port. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { freePort } from "../../../nevertwice/test/services/ports.ts";
import type { Kill } from "./referee.ts";

/** The service honours the fence, so a key whose server was killed goes to the next try. */
const ROUTES = fileURLToPath(new URL("routes.toml", import.meta.url));
const MAIN = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

export interface Copies {
  /** The URLs of the gateways. */
  readonly urls: readonly string[];
  readonly kills: readonly Kill[];
  /** Servers that ended without a kill; there should be none. */
  readonly crashes: readonly string[];
  /** Kills one server and starts it again. */
  restart(index: number): Promise<void>;
  end(): void;
}

export interface CopiesOptions {
  readonly count: number;
  /** The store of each server: the same for all, except in the test that must fail. */
  store(index: number): string;
  readonly leaseMs: number;
  /** The address of the service for this start of this server. */
  upstream(server: string): Promise<string>;
}

export async function startCopies({ count, store, leaseMs, upstream }: CopiesOptions): Promise<Copies> {
  const ports: { readonly api: number; readonly gateway: number }[] = [];
  for (let index = 0; index < count; index++)
    ports.push({ api: await freePort(), gateway: await freePort() });
  const running: ChildProcess[] = [];
  const starts: number[] = ports.map(() => 0);
  const kills: Kill[] = [];
  const crashes: string[] = [];
  let isEnded = false;
  const nameOf = (index: number) => `${index}.${starts[index]}`;

  async function start(index: number): Promise<void> {
    starts[index] = (starts[index] ?? 0) + 1;
    const flags = {
      store: store(index),
      listen: `127.0.0.1:${ports[index]?.api}`,
      "gateway-listen": `127.0.0.1:${ports[index]?.gateway}`,
      config: ROUTES,
      upstream: await upstream(nameOf(index)),
      lease: `${leaseMs}ms`,
      "log-level": "error",
    };
    if (isEnded) return;
    const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
    const child = spawn(process.execPath, [MAIN, "serve", "--json", ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    running[index] = child;
    const name = nameOf(index);
    child.once("exit", (code, signal) => {
      if (signal !== "SIGKILL") crashes.push(`${name} ended with ${code ?? signal}`);
    });
    await up(child);
  }

  const end = () => {
    isEnded = true;
    for (const child of running) child.kill("SIGKILL");
  };
  try {
    await Promise.all(ports.map((_, index) => start(index)));
  } catch (error) {
    end();
    throw error;
  }
  return {
    urls: ports.map(({ gateway }) => `http://127.0.0.1:${gateway}`),
    kills,
    crashes,
    async restart(index) {
      const child = running[index];
      // Recorded before the kill, so that it explains only tries after it.
      kills.push({ server: nameOf(index), at: performance.now() });
      child?.kill("SIGKILL");
      if (child?.exitCode === null && child.signalCode === null) await once(child, "exit");
      await start(index);
    },
    end,
  };
}

/** Resolves once the server is up; rejects with its output if it ends before. */
function up(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = "";
    const { stdout, stderr } = child;
    stderr?.on("data", (chunk) => {
      said = (said + chunk).slice(-5_000);
    });
    stdout?.on("data", (chunk) => {
      said = (said + chunk).slice(-5_000);
      if (said.includes("nevertwice is up")) resolve();
    });
    child.once("exit", (code, signal) => {
      if (signal === "SIGKILL") resolve();
      else reject(new Error(`a server ended with ${code}: ${said}`));
    });
  });
}
