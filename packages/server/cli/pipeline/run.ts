/** Runs a network on lines of JSON: each line of standard input is a message, and its result is printed as a line. */
import { createInterface } from "node:readline";
import { createGuard } from "nevertwice";
import { type Definition, type Pipeline, type PipelineOptions, recordCoverage } from "nevertwice/pipeline";
import { openStore } from "nevertwice/stores/open";
import { readConfig } from "../../src/config.ts";
import { type CommandResult, complain, EXIT, print } from "../command.ts";
import { eventText } from "../envelope.ts";
import { explainPortInUse } from "../serve.ts";
import { errorMessage, lineText, pushLine } from "./line.ts";

export interface RunOptions {
  /** Undefined for a network without an exposed in-port. */
  readonly port: string | undefined;
  readonly store: string;
  readonly namespace: string | undefined;
  /** The most tries of a line. */
  readonly tries: number;
  /** The file that gets what `pipeline coverage` needs. */
  readonly record: string | undefined;
  /** Serves the dashboard on this address while the network runs, and until a signal. */
  readonly listen: string | undefined;
  readonly json: boolean;
}

/** The most lines that are in progress at once. The buffers of the network usually limit them earlier. */
const MAX_IN_PROGRESS = 256;

export async function runPipeline(definition: Definition, options: RunOptions): Promise<CommandResult> {
  const { port, record, json } = options;
  const onEvent = record === undefined ? undefined : recordCoverage(record);
  const host = await (options.listen === undefined
    ? openHost(options)
    : openServerHost(options, options.listen));
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once("SIGTERM", onSignal).once("SIGINT", onSignal);
  try {
    const pipeline = await host.start(definition, { on: printers(definition, json), onEvent });
    await host.listen?.();
    const counts = { acknowledged: 0, alreadyDone: 0, failed: 0 };
    if (port !== undefined) await pushLines(pipeline, port, { ...options, counts }, stop.signal);
    // A source may never end; then a signal ends the run.
    await Promise.race([pipeline.idle(), untilAborted(stop.signal)]);
    // Otherwise the dashboard would be gone before anyone has looked at it.
    if (host.listen !== undefined) await untilAborted(stop.signal);
    const { error } = pipeline.health();
    const left = await pipeline.close();
    const stopped = error === undefined ? null : errorMessage(error);
    return toResult(counts, { stopped, unsettled: left.length });
  } finally {
    process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    await host.close();
  }
}

/** What the network runs on: a store alone, or a server with its dashboard. */
interface RunHost {
  start(definition: Definition, options: PipelineOptions): Promise<Pipeline>;
  /** Undefined without a dashboard. */
  readonly listen?: () => Promise<void>;
  close(): Promise<void>;
}

async function openHost({ store: url, namespace }: RunOptions): Promise<RunHost> {
  const store = await openStore(url);
  const guard = createGuard({ store, ...(namespace !== undefined && { namespace }) });
  return {
    start: (definition, options) => definition.start(guard, options),
    async close() {
      await guard.close();
      await store.close();
    },
  };
}

/** Settings that are not flags of this command come from the environment, like those of `serve`. */
async function openServerHost({ store, namespace, json }: RunOptions, address: string): Promise<RunHost> {
  const flags = { store, listen: address, namespace, logLevel: "warn" };
  const config = readConfig({ flags, env: process.env });
  const { createServer } = await import("../../src/server.ts");
  const server = await createServer(config);
  return {
    start: server.startPipeline,
    async listen() {
      try {
        const { url } = await server.listen();
        if (json) print(eventText("listening", { url }));
        else complain(`dashboard ${url}/pipelines; SIGINT or SIGTERM ends the run.`);
      } catch (error) {
        throw explainPortInUse(error);
      }
    },
    close: server.close,
  };
}

interface LineCounts {
  acknowledged: number;
  /** Acknowledged without doing anything, since the line was done before. */
  alreadyDone: number;
  failed: number;
}

function toResult(
  counts: LineCounts,
  ending: { readonly stopped: string | null; readonly unsettled: number },
): CommandResult {
  const { acknowledged, alreadyDone, failed } = counts;
  const { stopped, unsettled } = ending;
  const isWell = failed === 0 && stopped === null && unsettled === 0;
  return {
    exit: isWell ? EXIT.ok : EXIT.failed,
    data: { ...counts, ...ending },
    lines: [],
    remarks: [
      ...(stopped === null ? [] : [`the network stopped: ${stopped}`]),
      ...(unsettled === 0 ? [] : [`${unsettled} messages were in progress and are not settled`]),
      `${isWell ? "done" : "failed"}: ${acknowledged} lines acknowledged, ${alreadyDone} already done, ${failed} not acknowledged`,
    ],
  };
}

/** A handler for each exposed out-port, which prints its messages. */
function printers({ model }: Definition, json: boolean) {
  return Object.fromEntries(
    [...model.exposed.out.keys()].map((out) => [
      out,
      (payload: unknown, { id, isRecovered }: { readonly id: string; readonly isRecovered: boolean }) =>
        print(
          json
            ? eventText("out", { out, id, isRecovered, payload })
            : `${out}: ${JSON.stringify(payload)}${isRecovered ? " (may have been sent before)" : ""}`,
        ),
    ]),
  );
}

/** Pushes every line, prints its result, and counts it. */
async function pushLines(
  pipeline: Pipeline,
  port: string,
  { json, tries, counts }: RunOptions & { readonly counts: LineCounts },
  signal: AbortSignal,
): Promise<void> {
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
      if (!("verdict" in outcome) || outcome.verdict !== "acknowledge") counts.failed += 1;
      else counts[outcome.isDuplicate ? "alreadyDone" : "acknowledged"] += 1;
      print(json ? eventText("line", { line, ...outcome }) : lineText(line, outcome));
      inProgress.delete(pushed);
    });
    inProgress.add(pushed);
    if (inProgress.size >= MAX_IN_PROGRESS) await Promise.race(inProgress);
  }
  await Promise.all(inProgress);
  signal.removeEventListener("abort", end);
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
