/** Starts another process of the application that a scenario plays, and tells it what to call. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("child.js", import.meta.url));

export async function startChild(plan) {
  const process = fork(PROGRAM, [JSON.stringify(plan)], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const messages = [];
  const waiters = [];
  process.on("message", (message) => {
    messages.push(message);
    for (const waiter of waiters.splice(0)) waiter();
  });

  /** The message of this kind, once it has come. */
  async function heard(kind) {
    for (;;) {
      const message = messages.find((each) => each.kind === kind);
      if (message !== undefined) return message;
      if (process.exitCode !== null) throw new Error(`the other process ended before it said ${kind}`);
      await Promise.race([new Promise((resolve) => waiters.push(resolve)), once(process, "exit")]);
    }
  }

  return {
    heard,
    async kill() {
      const ended = once(process, "exit");
      process.kill("SIGKILL");
      await ended;
    },
    async close() {
      process.kill("SIGKILL");
    },
  };
}
