/** A network run on lines of JSON: each line of standard input is a message, each ending a line that is printed. */
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import { createGuard } from "nevertwice";
import type { Definition, Pipeline, PushOutcome } from "nevertwice/pipeline";
import { openStore } from "nevertwice/stores/open";
import { complain, EXIT, type Exit, print } from "./command.ts";

export interface RunOptions {
  /** Undefined for a network that takes nothing from outside. */
  readonly port: string | undefined;
  readonly store: string;
  readonly namespace: string | undefined;
  /** How often a line is pushed at most. */
  readonly tries: number;
  readonly json: boolean;
}

/** So many lines are read ahead of the first that is not settled; the network's own buffers hold them back before that. */
const MOST_UNDER_WAY = 256;

/** Before the second push of a line, twice as long before the third, and so on. */
const PAUSE_MS = 200;

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
    // A source may go on for ever: then it is a signal that ends it.
    await Promise.race([pipeline.idle(), fired(stop.signal)]);
    const { error } = pipeline.health();
    const left = await pipeline.close();
    if (error !== undefined) complain(`the network gave up: ${messageOf(error)}`);
    if (left.length > 0) complain(`${left.length} messages were under way and are not settled`);
    return isWell && error === undefined && left.length === 0 ? EXIT.ok : EXIT.failed;
  } finally {
    process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    await guard.close();
    await store.close();
  }
}

/** One for each exposed out-port. */
function printers({ model }: Definition, json: boolean) {
  return Object.fromEntries(
    [...model.exposed.out.keys()].map((out) => [
      out,
      (payload: unknown, { id, isRecovered }: { readonly id: string; readonly isRecovered: boolean }) =>
        print(
          json
            ? JSON.stringify({ out, id, isRecovered, payload })
            : `${out}: ${JSON.stringify(payload)}${isRecovered ? " (may have left before)" : ""}`,
        ),
    ]),
  );
}

/** Whether all that was read was acknowledged. */
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
    // What is under way is finished, and nothing is begun.
    void pipeline.close();
  };
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  const underWay = new Set<Promise<void>>();
  let isWell = true;
  let number = 0;
  for await (const text of lines) {
    number += 1;
    if (text.trim() === "") continue;
    const line = number;
    const pushed = pushLine(pipeline, port, text, tries, signal).then((outcome) => {
      isWell &&= "verdict" in outcome && outcome.verdict === "acknowledge";
      print(json ? JSON.stringify({ line, ...outcome }) : lineText(line, outcome));
      underWay.delete(pushed);
    });
    underWay.add(pushed);
    if (underWay.size >= MOST_UNDER_WAY) await Promise.race(underWay);
  }
  await Promise.all(underWay);
  signal.removeEventListener("abort", end);
  return isWell;
}

type LineOutcome = { readonly error: string } | ShownOutcome;

interface ShownOutcome extends Pick<PushOutcome, "id" | "verdict" | "isDuplicate"> {
  readonly failures: readonly {
    readonly node: string;
    readonly phase: string;
    readonly reason: string;
    readonly message: string;
  }[];
}

async function pushLine(
  pipeline: Pipeline,
  port: string,
  text: string,
  tries: number,
  signal: AbortSignal,
): Promise<LineOutcome> {
  let payload: unknown;
  try {
    payload = JSON.parse(text);
  } catch (error) {
    return { error: `this is no JSON: ${messageOf(error)}` };
  }
  let outcome = await pipeline.push(port, payload);
  // Nobody else delivers a line again, so what is to come back later does so from here, under its first id.
  for (let tried = 1; outcome.verdict === "later" && tried < tries && !signal.aborted; tried++) {
    await setTimeout(PAUSE_MS * tried, undefined, { signal }).catch(() => {});
    if (!signal.aborted) outcome = await pipeline.push(port, payload, { id: outcome.id });
  }
  const { id, verdict, isDuplicate, failures } = outcome;
  return {
    id,
    verdict,
    isDuplicate,
    failures: failures.map(({ node, phase, reason, error }) => ({
      node,
      phase,
      reason,
      message: messageOf(error),
    })),
  };
}

/** `line 3: reject, price: schema-mismatch (this is no Order@1)`. */
function lineText(line: number, outcome: LineOutcome): string {
  if ("error" in outcome) return `line ${line}: ${outcome.error}`;
  const reasons = outcome.failures.map(
    ({ node, reason, message }) => `${node}: ${reason}${message === "" ? "" : ` (${message})`}`,
  );
  return `line ${line}: ${[outcome.isDuplicate ? "done before" : outcome.verdict, ...reasons].join(", ")}`;
}

function messageOf(error: unknown): string {
  if (error === undefined) return "";
  return error instanceof Error ? error.message : String(error);
}

function fired(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
