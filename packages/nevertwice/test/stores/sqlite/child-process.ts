/** A process of its own on a SQLite file, which prints one JSON value a line. It is killed when the test ends. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";

export interface Child {
  readonly process: ChildProcess;
  /** The next line that the process prints. */
  next<Said>(): Promise<Said>;
  /** The remaining lines, once the process has ended. */
  rest(): Promise<string[]>;
  /** Its exit code, and its output on stderr. */
  readonly ended: Promise<{ code: number | null; complaint: string }>;
}

/** Runs Node with these arguments. `by` is the command that starts Node, if it is not started directly. */
export function startProcess(args: readonly string[], cwd?: string, by: readonly string[] = []): Child {
  const [command = "", ...all] = [...by, process.execPath, ...args];
  const child = spawn(command, all, {
    cwd,
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, NODE_OPTIONS: "--disable-warning=ExperimentalWarning" },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let complaint = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    complaint += text;
  });
  return {
    process: child,
    async next() {
      const { value, done } = await lines.next();
      if (done) throw new Error(`the process ended:\n${complaint}`);
      return JSON.parse(value);
    },
    async rest() {
      const said: string[] = [];
      for await (const line of { [Symbol.asyncIterator]: () => lines }) said.push(line);
      return said;
    },
    ended: once(child, "close").then(([code]) => ({ code, complaint })),
  };
}
