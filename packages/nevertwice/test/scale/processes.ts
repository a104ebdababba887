/** Starts the processes of a trial. They are plain Node on the built library, and exchange messages with the test. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { TestContext } from "vitest";

export interface Message {
  readonly kind: string;
}

export interface Process {
  /** Resolves with the next message of this kind that was not received yet. Rejects if the process ends without it. */
  next<T extends Message>(kind: T["kind"]): Promise<T>;
  tell(message: string): void;
  signal(signal: NodeJS.Signals): void;
  /** Resolves when the process has ended by itself or by the test's signal, and rejects if it ended in any other way. */
  readonly ended: Promise<void>;
}

/** `script` is a file of workers/, and gets the options as JSON. The process ends with the test at the latest. */
export function startProcess(
  { onTestFinished }: Pick<TestContext, "onTestFinished">,
  script: string,
  options: object,
): Process {
  const path = fileURLToPath(new URL(`workers/${script}`, import.meta.url));
  const child = fork(path, [JSON.stringify(options)], {
    execArgv: [],
    stdio: ["ignore", "inherit", "pipe", "ipc"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));

  let said = "";
  child.stderr?.setEncoding("utf8").on("data", (text) => {
    said += text;
  });
  const heard: Message[] = [];
  const listeners = new Set<() => void>();
  let end: Error | undefined;
  child.on("message", (message: Message) => {
    heard.push(message);
    for (const listen of [...listeners]) listen();
  });
  const ended = new Promise<void>((resolve, reject) => {
    child.on("close", (code, signal) => {
      end = new Error(`${script} ended with ${signal ?? code}: ${said}`);
      for (const listen of [...listeners]) listen();
      if (code === 0 || signal === "SIGKILL") resolve();
      else reject(end);
    });
  });
  ended.catch(() => {});

  return {
    next<T extends Message>(kind: T["kind"]) {
      return new Promise<T>((resolve, reject) => {
        const listen = (): void => {
          const index = heard.findIndex((message) => message.kind === kind);
          if (index === -1 && end === undefined) return;
          listeners.delete(listen);
          if (index === -1) reject(end);
          else resolve(heard.splice(index, 1)[0] as T);
        };
        listeners.add(listen);
        listen();
      });
    },
    tell: (message) => void child.send(message),
    signal: (signal) => void child.kill(signal),
    ended,
  };
}
