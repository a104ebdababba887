/** `nevertwice demo`: a server, a shop behind its gateway, and customers with every fault of a real network. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { NevertwiceServer } from "../src/server.ts";
import {
  type Command,
  type CommandCall,
  type CommandResult,
  EXIT,
  JSON_FLAG,
  print,
  wholeNumber,
} from "./command.ts";
import { createCustomers } from "./demo/customers.ts";
import { openShop } from "./demo/shop.ts";
import { createTally, type Figures, type Tally } from "./demo/tally.ts";
import { eventText } from "./envelope.ts";
import { closeInTime, explainPortInUse, firstSignal } from "./serve.ts";
import { configFrom, settingsFlags } from "./settings-flags.ts";
import { clearStatus, showStatus } from "./status-line.ts";
import { paint } from "./terminal.ts";

export const demoCommand: Command = {
  summary: "run the server with a demo shop and unreliable customers, and count duplicates",
  actions: {
    "": {
      summary:
        "Sends orders with lost connections, double clicks, crashes and slow handlers, and shows them on the dashboard.",
      flags: {
        seconds: { value: "N", what: "how long to run; default: until Ctrl-C" },
        rate: { value: "N", what: "customers per second", default: "12" },
        store: { value: "URL", what: "the store; default: a file that is removed at the end" },
        ...settingsFlags(["listen"]),
        ...JSON_FLAG,
      },
      notes: ["Exit code 1 if anything was done twice."],
      showsProgress: true,
      run: demo,
    },
  },
};

async function demo(call: CommandCall): Promise<CommandResult> {
  const seconds = wholeNumber(call, "seconds", 1);
  const rate = wholeNumber(call, "rate", 1) as number;
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-demo-"));
  const tally = createTally();
  const shop = await openShop(tally);
  try {
    const store = call.text("store") ?? `sqlite:${encodeURI(join(folder, "demo.db"))}`;
    const server = await openServer(call, store, shop.url);
    const isWhole = await runShop(server, { call, tally, rate, seconds });
    await closeInTime(server, DRAIN_MS);
    return toResult(tally.figures, isWhole);
  } finally {
    await shop.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const DRAIN_MS = 10_000;

async function openServer(call: CommandCall, store: string, upstream: string): Promise<NevertwiceServer> {
  const { createServer } = await import("../src/server.ts");
  return createServer({
    store,
    upstream,
    namespace: `demo-${Date.now()}`,
    listen: configFrom(call).listen,
    gatewayListen: { host: "127.0.0.1", port: 0 },
    drain: DRAIN_MS,
    logLevel: "silent",
    routes: [
      {
        path: "/charges",
        methods: ["POST"],
        required: true,
        scope: { header: "x-customer" },
        onLapsed: "takeover",
        onUpstreamLost: "unknown",
      },
    ],
  });
}

interface ShopRun {
  readonly call: CommandCall;
  readonly tally: Tally;
  readonly rate: number;
  readonly seconds: number | undefined;
}

/** Runs until the time is over or a signal arrives, then finishes the current customers. Returns whether the audit passes. */
async function runShop(server: NevertwiceServer, { call, tally, rate, seconds }: ShopRun): Promise<boolean> {
  try {
    const { url, gatewayUrl = "" } = await server.listen();
    if (await server.context.access.isRequired())
      throw new Error(
        "this store has access tokens, and the customers of the demo have none; choose another --store.",
      );
    if (call.has("json")) print(eventText("started", { url, gatewayUrl }));
    else for (const line of welcome(url, gatewayUrl, seconds)) print(line);
    const customers = createCustomers({ gateway: gatewayUrl, api: url }, tally);
    const visits = new Set<Promise<void>>();
    const closing = new AbortController();
    const ended = [firstSignal(), ...(seconds === undefined ? [] : [setTimeout(seconds * 1_000)])];
    void Promise.race(ended).then(() => closing.abort());
    while (!closing.signal.aborted) {
      const visit = customers.visit().finally(() => visits.delete(visit));
      visits.add(visit);
      showProgress(tally.figures);
      await setTimeout((1_000 / rate) * (0.5 + Math.random()), undefined, { signal: closing.signal }).catch(
        () => {},
      );
    }
    clearStatus();
    if (!call.has("json")) print("The shop closes and serves its last customers.");
    await Promise.all(visits);
    const { namespace } = server.context.settings;
    return (await server.context.holds(namespace)?.audit())?.ok ?? true;
  } catch (error) {
    await server.close();
    throw explainPortInUse(error);
  }
}

function welcome(url: string, gatewayUrl: string, seconds: number | undefined): readonly string[] {
  return [
    paint("bold", "The demo shop is open. Its customers click twice, lose connections and retry."),
    "",
    `  dashboard  ${paint("cyan", `${url}/`)}`,
    `  gateway    ${paint("cyan", gatewayUrl)}`,
    "",
    seconds === undefined ? "Press Ctrl-C to stop and see the result." : `The demo stops after ${seconds} s.`,
    "",
  ];
}

function showProgress({ requestsSent, effectsMade, duplicates }: Figures): void {
  showStatus(`${requestsSent} requests sent · ${effectsMade} effects made · ${duplicates} duplicates`);
}

function toResult(figures: Figures, isWhole: boolean): CommandResult {
  const { requestsSent, effectsMade, duplicates, secondTries, conflictsRefused, gaveUp } = figures;
  const isPassed = duplicates === 0 && isWhole;
  return {
    exit: isPassed ? EXIT.ok : EXIT.failed,
    data: { ...figures, auditHolds: isWhole },
    lines: [
      "",
      `requests sent: ${requestsSent}`,
      `effects made: ${effectsMade}`,
      paint(duplicates === 0 ? "green" : "red", `duplicates: ${duplicates}`),
      "",
      `Charges repeated because the shop crashed in the middle: ${secondTries}; the payment provider recognized their keys.`,
      `Keys reused for another order, and refused: ${conflictsRefused}. Customers who gave up: ${gaveUp}.`,
      `Audit of the seats: ${isWhole ? "every invariant holds" : paint("red", "broken")}.`,
      paint(isPassed ? "green" : "red", isPassed ? "passed: nothing was done twice" : "failed"),
    ],
  };
}
