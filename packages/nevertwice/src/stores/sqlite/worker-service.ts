/**
 * The inside of a worker thread that owns a SQLite connection: finds a driver, opens the file, and answers requests. A
 * flush in this thread never blocks the event loop of the process. The first request opens the file; while opening fails,
 * each request tries again.
 */
import { parentPort, workerData } from "node:worker_threads";
import { NevertwiceError } from "../../core/errors.ts";
import { type FileSettings, filePragmas, lookUp, type OwnDatabase, retryWhileLocked } from "./client.ts";
import { findDriver, type SqliteDriver } from "./driver.ts";
import { copyError, toStoreError } from "./errors.ts";
import { fileIdentity, type OpenedFile } from "./opened-file.ts";
import { type ExitGate, type FromThread, passGate, type ToThread, type WorkerData } from "./worker-thread.ts";

export interface WorkerService<Request, Reply> {
  /** Called with a file that was just opened; returns the function that runs requests on it. */
  connect(database: OwnDatabase): (request: Request) => Reply;
  /** Called when the file can be used, before the first reply. */
  onOpened?(file: OpenedFile): void;
  /** Receives messages that are neither `run` nor `close`. */
  onMessage?(message: ToThread): void;
  stop?(): void;
}

export interface WorkerPort<News> {
  readonly gate: ExitGate;
  /** Sends a message to the process that is not the reply to a request. */
  post(news: News): void;
  serve<Request, Reply>(service: WorkerService<Request, Reply>): Promise<void>;
}

export function openWorkerPort<News = never>(): WorkerPort<News> {
  const port = parentPort;
  if (port === null) throw new Error("nevertwice's SQLite worker runs only in a worker thread.");
  const { settings, gate } = workerData as WorkerData;
  const post = (message: FromThread | News) => port.postMessage(message);

  async function serve<Request, Reply>(service: WorkerService<Request, Reply>): Promise<void> {
    const { connect, onOpened, onMessage, stop } = service;
    let database: OwnDatabase | undefined;
    let run: ((request: Request) => Reply) | undefined;
    let identity: string | undefined;

    /** No other process sees writes to a file that was unlinked: they would claim the same keys again. */
    function checkIdentity(): void {
      if (fileIdentity(settings.file) === identity) return;
      throw new NevertwiceError(
        "store-unsafe",
        "the SQLite file was removed or replaced while the store was open, and the store's records are in the removed file; put it back, or restart this process to use the new file.",
      );
    }

    function opened(): (request: Request) => Reply {
      if (run !== undefined) return run;
      if ("failure" in driver) throw driver.failure;
      const candidate = openFile(driver, settings);
      try {
        run = connect(candidate);
        database = candidate;
        identity = fileIdentity(settings.file);
        onOpened?.({ identity, driver: driver.location });
        return run;
      } catch (error) {
        candidate.close();
        throw error;
      }
    }

    function answer(request: Request): void {
      try {
        const runRequest = opened();
        checkIdentity();
        post(["done", runRequest(request)]);
      } catch (error) {
        post(["failed", copyError(error)]);
      }
    }

    /** The process terminates the thread, because a thread cannot end itself on every runtime. */
    function close(): void {
      stop?.();
      database?.close();
      post(["closed"]);
    }

    // Messages are queued until a listener is added, so none is lost or reordered while the driver is loaded.
    const driver: SqliteDriver | { readonly failure: unknown } = await findDriver(settings.exclusive).catch(
      (failure) => ({ failure }),
    );
    port?.on("message", (message: ToThread) =>
      passGate(gate, () => {
        if (message[0] === "run") answer(message[1] as Request);
        else if (message[0] === "close") close();
        else onMessage?.(message);
      }),
    );
  }

  return { gate, post, serve };
}

/** Opens a file with the settings that the store's guarantees depend on. */
function openFile(driver: SqliteDriver, settings: FileSettings): OwnDatabase {
  let database: OwnDatabase | undefined;
  try {
    const opened = driver.open(settings.file);
    database = opened;
    // Processes that start at the same time compete for the lock here.
    retryWhileLocked(() => configure(opened, settings));
    return opened;
  } catch (error) {
    database?.close();
    throw toStoreError(error);
  }
}

function configure(database: OwnDatabase, { synchronous, exclusive }: FileSettings): void {
  // The store retries by itself (`retryWhileLocked`).
  database.exec("PRAGMA busy_timeout = 0");
  // Takes effect only if it is set before the file is first read. Then no other connection can open the file.
  if (exclusive) database.exec("PRAGMA locking_mode = EXCLUSIVE");
  const mode = lookUp(database, "PRAGMA journal_mode = WAL");
  if (mode !== "wal")
    throw new NevertwiceError(
      "store-unsafe",
      `the file cannot use a write-ahead log (journal_mode stays ${mode}); put it on a local disk of this machine.`,
    );
  database.exec(filePragmas(synchronous));
}
