/**
 * The journeys of messages through one network: every step from their entry to their end, from the events of the network.
 * In memory and bounded. Journeys that failed are kept apart, so that many that went well do not push them out.
 */
import type { PipelineEvent } from "nevertwice/pipeline";

/** The most journeys that are followed at once. A message that enters beyond that has no journey. */
const MAX_RUNNING = 500;
const MAX_ENDED = 200;
const MAX_STEPS = 100;
/** The most characters of an id: it belongs to the sender, who may send anything. */
const MAX_TEXT = 200;

export const JOURNEY_ENDINGS = ["running", "acknowledge", "later", "reject"] as const;
export type JourneyEnding = (typeof JOURNEY_ENDINGS)[number];

export interface Journey {
  readonly number: number;
  /** Shared by all messages of the journey; the id of the first one, unless the sender chose another. */
  readonly trace: string;
  readonly startedAt: number;
  /** Of the last step. */
  readonly lastAt: number;
  readonly ending: JourneyEnding;
  /** The nodes on its way, in the order of their first step. */
  readonly nodes: readonly string[];
  /** Why it failed, or what goes wrong so far: the last reason. Absent if it ended well. */
  readonly reason?: string;
  readonly steps: readonly JourneyStep[];
  /** How many steps were left out because there were too many. */
  readonly leftOut: number;
}

/** An event, without payloads, keys and errors. */
export interface JourneyStep {
  readonly at: number;
  readonly kind: PipelineEvent["kind"];
  readonly node?: string;
  /** Of the message. */
  readonly id: string;
  readonly detail: Readonly<Record<string, string | number | readonly string[]>>;
}

export interface Journeys {
  observe(event: PipelineEvent): void;
  /** The newest first. `message` is the id of one of its messages, or its trace. */
  list(filter: {
    readonly ending?: string;
    readonly message?: string;
    readonly limit: number;
  }): readonly Journey[];
  find(number: number): Journey | undefined;
  /** How many messages entered while too many others were followed. */
  notFollowed(): number;
}

interface OpenJourney {
  readonly number: number;
  readonly trace: string;
  readonly startedAt: number;
  lastAt: number;
  ending: JourneyEnding;
  reason: string | undefined;
  readonly nodes: Set<string>;
  readonly steps: JourneyStep[];
  leftOut: number;
  /** Messages that entered and are not settled: a sender may give several the same trace. */
  unsettled: number;
}

/** The later ending wins, as in the outcome of a push. */
const WEIGHT: Readonly<Record<JourneyEnding, number>> = { running: 0, acknowledge: 1, reject: 2, later: 3 };

export function createJourneys(now: () => number): Journeys {
  const running = new Map<string, OpenJourney>();
  const ended: { readonly well: OpenJourney[]; readonly badly: OpenJourney[] } = { well: [], badly: [] };
  let number = 0;
  let missed = 0;

  function begin(trace: string): OpenJourney | undefined {
    const known = running.get(trace);
    if (known !== undefined) return known;
    if (running.size >= MAX_RUNNING) {
      missed++;
      return undefined;
    }
    const at = now();
    number++;
    const nodes = new Set<string>();
    const journey: OpenJourney = {
      ...{ number, trace, startedAt: at, lastAt: at, ending: "running", reason: undefined, nodes },
      ...{ steps: [], leftOut: 0, unsettled: 0 },
    };
    running.set(trace, journey);
    return journey;
  }

  function end(journey: OpenJourney, verdict: JourneyEnding): void {
    if (WEIGHT[verdict] > WEIGHT[journey.ending]) journey.ending = verdict;
    journey.unsettled--;
    if (journey.unsettled > 0) {
      return;
    }
    running.delete(journey.trace);
    const list = journey.ending === "acknowledge" ? ended.well : ended.badly;
    list.push(journey);
    if (list.length > MAX_ENDED) list.shift();
  }

  const newestFirst = () =>
    [...running.values(), ...ended.well, ...ended.badly].sort((a, b) => b.number - a.number);

  return {
    observe(event) {
      if (!("trace" in event) || event.trace === undefined || event.id === undefined) return;
      const trace = cut(event.trace);
      const journey = event.kind === "entered" ? begin(trace) : running.get(trace);
      if (journey === undefined) return;
      if (event.kind === "entered") journey.unsettled++;
      journey.lastAt = now();
      if ("node" in event && event.node !== undefined) journey.nodes.add(event.node);
      if ("reason" in event && event.reason !== undefined && event.kind !== "dropped")
        journey.reason = cut(event.reason);
      if (journey.steps.length < MAX_STEPS) journey.steps.push(toStep(event, journey.lastAt));
      else journey.leftOut++;
      if (event.kind === "settled") end(journey, event.verdict);
    },
    list: ({ ending, message, limit }) =>
      newestFirst()
        .filter((journey) => ending === undefined || journey.ending === ending)
        .filter(
          ({ trace, steps }) =>
            message === undefined || trace === message || steps.some(({ id }) => id === message),
        )
        .slice(0, limit)
        .map(toJourney),
    find: (wanted) =>
      newestFirst()
        .filter((journey) => journey.number === wanted)
        .map(toJourney)[0],
    notFollowed: () => missed,
  };
}

function toJourney({ unsettled: _, nodes, reason, ...journey }: OpenJourney): Journey {
  return {
    ...journey,
    nodes: [...nodes],
    ...(reason !== undefined && journey.ending !== "acknowledge" && { reason }),
    steps: [...journey.steps],
  };
}

const DETAILS = [
  ...[
    "port",
    "ports",
    "attempt",
    "ranMs",
    "emits",
    "phase",
    "reason",
    "verdict",
    "afterMs",
    "axis",
    "target",
  ],
  ...["action", "buffer", "ending", "tookMs", "parents"],
];

/** Only what is listed is taken: an error's message may contain data that operators must not see here. */
function toStep(event: PipelineEvent & { readonly id?: string }, at: number): JourneyStep {
  const values = event as unknown as Readonly<
    Record<string, string | number | readonly string[] | undefined>
  >;
  const detail = Object.fromEntries(
    DETAILS.flatMap((name) => {
      const value = values[name];
      if (value === undefined || (Array.isArray(value) && value.length === 0)) return [];
      return [[name, typeof value === "string" ? cut(value) : value]];
    }),
  );
  const node = "node" in event && event.node !== undefined ? { node: event.node } : {};
  return { at, kind: event.kind, ...node, id: cut(event.id ?? ""), detail };
}

function cut(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}
