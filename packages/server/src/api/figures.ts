/** What all servers on the store counted over the last 24 hours, by operation and door. A caller sees its own namespace. */
import { visibleNamespace, WATCHERS } from "../access.ts";
import type { Context } from "../context.ts";
import type { HourFigures } from "../figures/figures-reader.ts";
import { COUNTED, createTally, DOORS, type TallyLine } from "../figures/tally.ts";
import { STOPPED } from "../stopped.ts";
import type { CountsJson, FiguresJson } from "./api-json.ts";
import type { ApiRoute, JsonSchema } from "./route.ts";

/** The most operations of a namespace in an answer, the busiest ones. The rest is `other`. */
const MAX_SHOWN = 200;

const COUNTS = {
  ...Object.fromEntries(COUNTED.map((name) => [name, { type: "integer" }])),
  stopped: {
    type: "integer",
    description: `Duplicates that were stopped: ${STOPPED.join(" + ")}.`,
  },
} as const;
const COUNT_NAMES = [...COUNTED, "stopped"];

const FIGURES_SCHEMA: JsonSchema = {
  type: "object",
  required: ["isComplete", "total", "operations", "hours"],
  properties: {
    isComplete: {
      type: "boolean",
      description: "False while older figures are still being read, or if the store did not answer.",
    },
    total: { type: "object", required: COUNT_NAMES, properties: COUNTS },
    operations: {
      type: "array",
      description: `The busiest ${MAX_SHOWN} of a namespace; the rest is counted as the operation other.`,
      items: {
        type: "object",
        required: ["namespace", "operation", "door", ...COUNT_NAMES],
        properties: {
          namespace: { type: "string" },
          operation: { type: "string" },
          door: { type: "string", enum: DOORS },
          ...COUNTS,
        },
      },
    },
    hours: {
      type: "array",
      description: "Oldest first; hours without figures are left out.",
      items: {
        type: "object",
        required: ["at", ...COUNT_NAMES],
        properties: {
          at: { type: "integer", description: "When the hour began, in milliseconds since the epoch." },
          ...COUNTS,
        },
      },
    },
  },
};

export function figuresRoutes(context: Pick<Context, "figures">): readonly ApiRoute[] {
  return [
    {
      method: "GET",
      path: "/v1/figures",
      id: "figures",
      tag: "live",
      roles: WATCHERS,
      problems: [],
      summary: "Read the figures of all servers over the last 24 hours",
      description:
        "Counted by operation and by the door that a call came through. Each server writes its counts every 10 seconds, so they are that late.",
      answers: { 200: { description: "The figures.", schema: FIGURES_SCHEMA } },
      async handle({ caller }) {
        const { isComplete, hours } = await context.figures.read();
        return { status: 200, body: toFigures(hours, isComplete, visibleNamespace(caller)) };
      },
    },
  ];
}

function toFigures(
  hours: readonly HourFigures[],
  isComplete: boolean,
  namespace: string | undefined,
): FiguresJson {
  const visible = hours.map(({ at, lines }) => ({
    at,
    lines: lines.filter((line) => namespace === undefined || line.namespace === namespace),
  }));
  const day = createTally(Number.POSITIVE_INFINITY);
  for (const { lines } of visible) for (const line of lines) day.add(line);
  const busiest = [...day.lines()].sort((a, b) => sum(b.counts) - sum(a.counts));
  const shown = createTally(2 * MAX_SHOWN);
  for (const line of busiest) shown.add(line);
  return {
    isComplete,
    total: toCounts(day.lines()),
    operations: shown.lines().map(({ counts, ...line }) => ({ ...line, ...toCounts([{ ...line, counts }]) })),
    hours: visible
      .filter(({ lines }) => lines.length > 0)
      .map(({ at, lines }) => ({ at, ...toCounts(lines) })),
  };
}

function sum(counts: readonly number[]): number {
  return counts.reduce((all, count) => all + count, 0);
}

function toCounts(lines: readonly TallyLine[]): CountsJson {
  const counts = Object.fromEntries(
    COUNTED.map((name, index) => [name, sum(lines.map((line) => line.counts[index] ?? 0))]),
  ) as Omit<CountsJson, "stopped">;
  return { ...counts, stopped: sum(STOPPED.map((name) => counts[name])) };
}
