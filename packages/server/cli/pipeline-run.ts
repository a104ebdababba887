/** Runs a network on lines of JSON: each line of standard input is a message, and its result is printed as a line. */
import { createInterface } from "node:readline";
import { createGuard } from "nevertwice";
import type { Definition, Pipeline } from "nevertwice/pipeline";
import { openStore } from "nevertwice/stores/open";
import { complain, EXIT, type Exit, print } from "./command.ts";
import { errorMessage, lineText, pushLine } from "./pipeline-line.ts";

export interface RunOptions {
  /** Undefined for a network without an exposed in-port. */
  readonly port: string | undefined;
  readonly store: string;
  readonly namespace: string | undefined;
  /** The most tries of a line. */
  readonly tries: number;
  readonly json: boolean;
}

/** The most lines that are in progress at once. The buffers of the network usually limit them earlier. */
const MAX_IN_PROGRESS = 256;

export async function runPipeline(definition: Definition, options: RunOptions): Promise<Exit> {
  const { port, store: url, namespace, json } = options;
  const store = await openStore(url);
  const guard = createGuard({ store, ...(namespace !== undefined && { namespace }) });
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once("SIGTERM", onSignal).once("SIGINT", onSignal);
  try {
    const pipeline = await definition.start(guard, { on: printers(definition, json) });
    const isWell = port === undefined || (await pushLines(pipeline, port, options, stop.signal));
    // A source may never end; then a signal ends the run.
    await Promise.race([pipeline.idle(), untilAborted(stop.signal)]);
    const { error } = pipeline.health();
    const left = await pipeline.close();
    if (error !== undefined) complain(`the network stopped: ${errorMessage(error)}`);
    if (left.length > 0) complain(`${left.length} messages were in progress and are not settled`);
    return isWell && error === undefined && left.length === 0 ? EXIT.ok : EXIT.failed;
  } finally {
    process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    await guard.close();
    await store.close();
  }
}

/** A handler for each exposed out-port, which prints its messages. */
function printers({ model }: Definition, json: boolean) {
  return Object.fromEntries(
    [...model.exposed.out.keys()].map((out) => [
      out,
      (payload: unknown, { id, isRecovered }: { readonly id: string; readonly isRecovered: boolean }) =>
        print(
          json
            ? JSON.stringify({ out, id, isRecovered, payload })
            : `${out}: ${JSON.stringify(payload)}${isRecovered ? " (may have been sent before)" : ""}`,
        ),
    ]),
  );
}

/** Returns whether every line was acknowledged. */
async function pushLines(
  pipeline: Pipeline,
  port: string,
  { json, tries }: RunOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY });
  const end = () => {
    lines.close();
    process.stdin.destroy();
    // Running messages finish, and no new ones start.
    void pipeline.close();
  };
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  const inProgress = new Set<Promise<void>>();
  let isWell = true;
  let hasSaidWaiting = false;
  const onWaiting = (line: number, leaseMs: number) => {
    if (hasSaidWaiting) return;
    hasSaidWaiting = true;
    const seconds = Math.ceil(leaseMs / 1_000);
    complain(
      `line ${line} waits for a key that another attempt holds; its lease ends in ${seconds} s unless it is renewed.`,
    );
  };
  let number = 0;
  for await (const text of lines) {
    number += 1;
    if (text.trim() === "") continue;
    const line = number;
    const pushing = {
      pipeline,
      port,
      tries,
      signal,
      onWaiting: (leaseMs: number) => onWaiting(line, leaseMs),
    };
    const pushed = pushLine(pushing, text).then((outcome) => {
      isWell &&= "verdict" in outcome && outcome.verdict === "acknowledge";
      print(json ? JSON.stringify({ line, ...outcome }) : lineText(line, outcome));
      inProgress.delete(pushed);
    });
    inProgress.add(pushed);
    if (inProgress.size >= MAX_IN_PROGRESS) await Promise.race(inProgress);
  }
  await Promise.all(inProgress);
  signal.removeEventListener("abort", end);
  return isWell;
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
