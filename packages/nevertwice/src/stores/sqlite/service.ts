/**
 * The inside of a worker thread that owns a connection, so that no flush ever blocks the event loop of the process. It
 * opens the file when it is first asked and tries again each time that failed.
 */
import { parentPort, workerData } from "node:worker_threads";
import { toFailure } from "./copied-errors.ts";
import type { OwnDatabase } from "./driver.ts";
import { type Driver, findDriver } from "./drivers.ts";
import { openFile } from "./file.ts";
import { type Gate, pass } from "./gate.ts";
import type { FromThread, ToThread, WorkerData } from "./thread.ts";

export interface Service<Request, Reply> {
  /** Answers what runs requests on a file that was just opened. */
  connect(database: OwnDatabase): (request: Request) => Reply;
  /** Told what is neither a request nor the end. */
  hear?(message: ToThread): void;
  stop?(): void;
}

export interface Post<News> {
  readonly gate: Gate;
  tell(news: News): void;
  serve<Request, Reply>(service: Service<Request, Reply>): Promise<void>;
}

export function openPost<News = never>(): Post<News> {
  const port = parentPort;
  if (port === null) throw new Error("nevertwice's SQLite worker runs in a worker thread only.");
  const { settings, gate } = workerData as WorkerData;
  const tell = (message: FromThread | News) => port.postMessage(message);

  async function serve<Request, Reply>({ connect, hear, stop }: Service<Request, Reply>): Promise<void> {
    let database: OwnDatabase | undefined;
    let run: ((request: Request) => Reply) | undefined;

    function opened(): (request: Request) => Reply {
      if (run !== undefined) return run;
      if ("failure" in found) throw found.failure;
      const candidate = openFile(found, settings);
      try {
        run = connect(candidate);
        database = candidate;
        return run;
      } catch (error) {
        candidate.close();
        throw error;
      }
    }

    function answer(request: Request): void {
      try {
        tell(["done", opened()(request)]);
      } catch (error) {
        tell(["failed", toFailure(error)]);
      }
    }

    /** The thread is ended by whoever started it: it cannot end itself on every runtime. */
    function close(): void {
      stop?.();
      database?.close();
      tell(["closed"]);
    }

    // Messages wait until somebody listens, so they stay in order.
    const found: Driver | { readonly failure: unknown } = await findDriver(settings.exclusive).catch(
      (failure) => ({ failure }),
    );
    port?.on("message", (message: ToThread) =>
      pass(gate, () => {
        if (message[0] === "run") answer(message[1] as Request);
        else if (message[0] === "close") close();
        else hear?.(message);
      }),
    );
  }

  return { gate, tell, serve };
}
