/** `nevertwice plan`: computes what a load takes of each store. It opens none. */
import { durationMs } from "nevertwice/env";
import { type Command, type CommandCall, JSON_FLAG, UsageError, wholeNumber } from "./command.ts";
import { type Load, PLANNED_STORES, type PlannedStore, planStore, type StorePlan } from "./plan/capacity.ts";
import { COEFFICIENTS, MEASURED } from "./plan/coefficients.ts";
import { paint, table } from "./terminal.ts";

const MOST_CALLS = 1_000_000_000;

export const planCommand: Command = {
  summary: "compute the bytes, processors, connections and write units that a load takes",
  actions: {
    "": {
      summary: "Computes what a load takes of each store, from measured costs of a key and of a call.",
      flags: {
        rate: { value: "NUMBER", default: "1000", what: "calls per second, replays among them" },
        retention: { value: "DURATION", default: "24h", what: "how long an outcome answers duplicates" },
        outcome: { value: "BYTES", default: "300", what: "the size of an outcome as JSON" },
        replays: { value: "PERCENT", default: "5%", what: "the share of calls that are duplicates" },
        only: { value: PLANNED_STORES.join("|"), what: "only this store" },
        ...JSON_FLAG,
      },
      notes: [
        "The costs were measured with client and server on one machine. Your processors, disks and network differ:",
        "measure with your own load before you buy.",
      ],
      async run(call) {
        const load = loadIn(call);
        const only = call.text("only") as PlannedStore | undefined;
        const plans = PLANNED_STORES.filter((store) => only === undefined || store === only).map((store) =>
          planStore(store, COEFFICIENTS[store], load),
        );
        const warnings = loadWarnings(load);
        const texts = [
          ...warnings,
          ...plans.flatMap((plan) => plan.warnings.map((text) => `${plan.store}: ${text}`)),
        ];
        return {
          data: { load, measured: MEASURED, warnings, plans },
          lines: [
            ...table(["", ...plans.map(({ store }) => store)], shownRows(plans)),
            ...texts.map((text) => paint("yellow", text)),
          ],
          remarks: [`costs measured ${MEASURED.date} (${MEASURED.on})`],
        };
      },
    },
  },
};

function loadIn(call: CommandCall): Load {
  const rate = call.text("rate") as string;
  if (!/^\d+(\.\d+)?$/.test(rate) || Number(rate) === 0 || Number(rate) > MOST_CALLS)
    throw new UsageError(`--rate must be a number above 0, and at most ${MOST_CALLS} (calls per second).`);
  return {
    rate: Number(rate),
    retentionMs: durationMs("--retention", call.text("retention") as string),
    outcomeBytes: wholeNumber(call, "outcome", 0) as number,
    replays: shareIn(call.text("replays") as string),
  };
}

/** Without its sign, 1 could mean one percent or all. */
function shareIn(text: string): number {
  const percent = Number(/^(\d+(?:\.\d+)?)%$/.exec(text)?.[1]);
  if (!(percent <= 100)) throw new UsageError("--replays must be a percentage from 0% to 100%, such as 5%.");
  return percent / 100;
}

/** The default of the option `maxOutcomeBytes`. */
const MOST_OUTCOME_BYTES = 1_048_576;

function loadWarnings({ outcomeBytes }: Load): readonly string[] {
  const largest = Math.max(...MEASURED.outcomes);
  return [
    ...(outcomeBytes > largest
      ? [`outcomes were measured up to ${count(largest)} bytes: the rest is a guess`]
      : []),
    ...(outcomeBytes > MOST_OUTCOME_BYTES
      ? ["a guard keeps such an outcome only with a larger maxOutcomeBytes"]
      : []),
  ];
}

const count = (value: number | undefined) => value?.toLocaleString("en-US") ?? "-";
const cores = (value: number | undefined) => value?.toFixed(2) ?? "-";

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];

/** With three digits. */
export function bytesText(value: number | undefined): string {
  if (value === undefined) return "-";
  // Rounded first: 999.9 bytes are 1 kB.
  const [digits = "0", exponent = "0"] = value.toExponential(2).split("e");
  const power = Math.min(UNITS.length - 1, Math.floor(Number(exponent) / 3));
  const decimals = Math.max(0, 2 - (Number(exponent) - 3 * power));
  const shown = Number(`${digits}e${Number(exponent) - 3 * power}`);
  return `${shown.toFixed(power === 0 ? 0 : decimals)} ${UNITS[power]}`;
}

const ROWS: readonly (readonly [title: string, cell: (plan: StorePlan) => string])[] = [
  ["keys kept", ({ keys }) => count(keys)],
  ["bytes kept", ({ storedBytes }) => bytesText(storedBytes)],
  ["of them in memory", ({ memoryBytes }) => bytesText(memoryBytes)],
  ["log, a second", ({ logBytesPerSecond }) => bytesText(logBytesPerSecond)],
  ["log at most, a second", ({ mostLogBytesPerSecond }) => bytesText(mostLogBytesPerSecond)],
  ["processors of the clients", ({ clientCores }) => cores(clientCores)],
  ["client processes", ({ processes }) => count(processes)],
  ["processors of the server", ({ serverCores }) => cores(serverCores)],
  ["masters", ({ masters }) => count(masters)],
  ["connections", ({ connections }) => count(connections)],
  ["keys that expire, a second", ({ expiring }) => count(expiring)],
  ["one guard purges, a second", ({ purgedPerSecond }) => count(purgedPerSecond)],
  ["write units, a second", ({ units }) => count(units?.writes)],
  ["readFirst: write units, a second", ({ units }) => count(units?.readFirst.writes)],
  ["readFirst: read units, a second", ({ units }) => count(units?.readFirst.reads)],
];

/** Without the rows that say nothing of these stores. */
function shownRows(plans: readonly StorePlan[]): readonly (readonly string[])[] {
  return ROWS.map(([title, cell]) => [title, ...plans.map(cell)]).filter(([, ...cells]) =>
    cells.some((text) => text !== "-"),
  );
}
