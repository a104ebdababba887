/** `nevertwice prove`: calls a store from several processes while they fail, and checks every answer. */
import type { Store } from "nevertwice";
import { diagnose } from "nevertwice/doctor";
import { openStore } from "nevertwice/stores/open";
import { withoutPassword } from "../src/config.ts";
import {
  type Command,
  type CommandCall,
  type CommandResult,
  EXIT,
  JSON_FLAG,
  print,
  Refused,
  UsageError,
  wholeNumber,
} from "./command.ts";
import { eventText } from "./envelope.ts";
import { requireExistingFile } from "./existing-file.ts";
import { networkFaults, PROCESS_FAULTS } from "./prove/fault-kinds.ts";
import type { MayBeRepeated } from "./prove/history.ts";
import type { ClockBounds } from "./prove/key-state.ts";
import { type FaultProxy, startProxy } from "./prove/proxy.ts";
import type { ProvedKey } from "./prove/recorded-store.ts";
import { removeKeys } from "./prove/removal.ts";
import { countText, hasPassed, reportLines, totalsFor, verdictLine } from "./prove/report.ts";
import {
  freshNamespace,
  mostKeys,
  RETENTION_MS,
  RUN_SIZE,
  type RunReport,
  runRounds,
} from "./prove/rounds.ts";
import { firstSignal } from "./serve.ts";
import { clearStatus, showStatus } from "./status-line.ts";
import { durationText, paint } from "./terminal.ts";

const MOST_SECONDS = 3_600;
const SEEDS = 1_000_000;

export const proveCommand: Command = {
  summary: "test a live store with failing processes and check every answer",
  actions: {
    "": {
      summary:
        "Calls the store from several processes while they are killed, paused and cut off, and checks that every answer is right.",
      takes: ["URL"],
      flags: {
        seconds: { value: "N", what: `how long to call the store, at most ${MOST_SECONDS}`, default: "60" },
        seed: { value: "N", what: "the seed of calls and faults; default: random" },
        ...JSON_FLAG,
      },
      notes: [
        "It writes keys of its own, in a namespace of its own, and removes them at the end. It reads and changes no other",
        "record, and kills, pauses and cuts off only its own processes. Exit code 1 if an answer is wrong.",
      ],
      showsProgress: true,
      run: prove,
    },
  },
};

/** What one run is about. */
interface Proof {
  readonly url: string;
  readonly shown: string;
  readonly seconds: number;
  readonly seed: number;
  readonly namespace: string;
  readonly isJson: boolean;
}

async function prove(call: CommandCall): Promise<CommandResult> {
  const [url = ""] = call.args;
  const seconds = wholeNumber(call, "seconds", 1) as number;
  if (seconds > MOST_SECONDS) throw new UsageError(`--seconds must be at most ${MOST_SECONDS}.`);
  if (/^memory:/.test(url))
    throw new UsageError("memory: is a store within one process, so other processes cannot call it.");
  requireExistingFile(url);
  const seed = wholeNumber(call, "seed", 0) ?? Math.floor(Math.random() * SEEDS);
  const shown = withoutPassword(url);
  const proof = { url, shown, seconds, seed, namespace: freshNamespace(), isJson: call.has("json") };
  const store = await openStore(url, { migrate: false });
  try {
    const diagnosis = await diagnose(store);
    if (diagnosis.refused !== undefined)
      throw new Refused("store-unsafe", `guards refuse this store: ${diagnosis.refused}`);
    const proxy = canBeProxied(url) ? await startProxy(url) : undefined;
    try {
      announce(proof, proxy, diagnosis.toString());
      const { report, left } = await runAndRemove(proof, proxy, store);
      const { toString: _, rung = null, ...settings } = diagnosis;
      return toResult(proof, { report, left, doctor: { rung, ...settings } });
    } finally {
      await proxy?.stop();
    }
  } finally {
    await store.close();
  }
}

/** A single server whose connections are not encrypted. A certificate would name the server, and not the proxy. */
function canBeProxied(url: string): boolean {
  return (
    /^(redis|postgres|postgresql|mysql):\/\/[^,/?]+(\/|\?|$)/.test(url) &&
    !/[?&](host|ssl\w*|tls)=/i.test(url)
  );
}

/** Which calls a driver or a store may have sent again: those whose connection broke. */
export function repetitionsThrough(proxy: FaultProxy): MayBeRepeated {
  return (sentAt, answeredAt) => proxy.closedBetween(sentAt, answeredAt);
}

/** What is known about the clock that ends leases. etcd and DynamoDB have none, so leases may end later there. */
export function boundsFor(url: string): ClockBounds {
  const hasNoClock = /^(etcds?|dynamodb):/.test(url);
  return { earlyMs: 20, lateMs: hasNoClock ? Number.POSITIVE_INFINITY : 1_000 };
}

function announce({ shown, seconds, seed, namespace, isJson }: Proof, proxy: unknown, doctor: string): void {
  const most = mostKeys(seconds);
  if (isJson) {
    print(eventText("started", { store: shown, seed, seconds, namespace, mostKeys: most }));
    return;
  }
  const { processes, callsPerRound, roundMs } = RUN_SIZE;
  const network =
    proxy === undefined
      ? "Connections are not cut: that needs redis:, postgres: or mysql:, one server, and no encryption."
      : "Their connections go through a proxy on this machine, which cuts, delays and drops them.";
  for (const line of [
    paint("bold", shown),
    `This run writes at most ${countText(most)} keys in the namespace ${namespace}, and removes them at its end.`,
    `If it is killed, they expire after ${durationText(RETENTION_MS)}. No other record is read or changed.`,
    `${processes} processes send up to ${countText(Math.floor((callsPerRound * 1_000) / roundMs))} calls a second for ${seconds} s. They are killed and paused.`,
    network,
    `Seed ${seed}. Ctrl-C ends the run early.`,
    "",
    doctor,
    "",
  ])
    print(line);
}

/** Removes the keys also if the run fails. */
async function runAndRemove(
  proof: Proof,
  proxy: FaultProxy | undefined,
  store: Store,
): Promise<{ readonly report: RunReport; readonly left: number }> {
  const written: ProvedKey[] = [];
  const remove = async (): Promise<number> => {
    showStatus("removing the keys of this run");
    const left = await removeKeys(store, written, RUN_SIZE.leaseMs);
    clearStatus();
    return left;
  };
  try {
    const report = await run(proof, proxy, written);
    return { report, left: await remove() };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function run(proof: Proof, proxy: FaultProxy | undefined, written: ProvedKey[]): Promise<RunReport> {
  const { url, seconds, seed, namespace } = proof;
  const closing = new AbortController();
  void firstSignal().then(() => closing.abort());
  const startedAt = performance.now();
  return runRounds({
    url: proxy?.url ?? url,
    seconds,
    seed,
    namespace,
    faults: [...PROCESS_FAULTS, ...(proxy === undefined ? [] : networkFaults(proxy))],
    bounds: boundsFor(url),
    mayBeRepeated: proxy && repetitionsThrough(proxy),
    written,
    signal: closing.signal,
    onRound({ tallies }) {
      const { calls, struck, violations } = totalsFor(tallies);
      const passed = Math.floor((performance.now() - startedAt) / 1_000);
      showStatus(
        `${passed} of ${seconds} s · ${countText(calls)} calls checked · ${countText(struck)} faults · ${violations} violations`,
      );
    },
  });
}

interface Proven {
  readonly report: RunReport;
  /** How many keys could not be removed. */
  readonly left: number;
  readonly doctor: object;
}

function toResult(proof: Proof, { report, left, doctor }: Proven): CommandResult {
  const { shown, seed, seconds, namespace } = proof;
  const totals = totalsFor(report.tallies);
  const isPassed = hasPassed(totals);
  return {
    exit: isPassed ? EXIT.ok : EXIT.failed,
    data: {
      store: shown,
      seed,
      seconds,
      namespace,
      passed: isPassed,
      ...totals,
      notRemoved: left,
      faults: report.tallies,
      covered: [...report.covered].sort(),
      doctor,
    },
    lines: [
      ...reportLines(report),
      ...(left === 0
        ? []
        : [
            paint(
              "yellow",
              `${left} keys could not be removed; they expire within ${durationText(RETENTION_MS)}.`,
            ),
          ]),
      "",
      verdictLine(totals),
    ],
  };
}
