/** Counts by namespace, door and operation. It has a limit, since callers choose operations. */
import type { GuardEvent } from "nevertwice";
import { isQuotaEvent } from "../live.ts";

/** How a call came to the server. `operator`: the routes about keys. */
export const DOORS = ["claims", "events", "gateway", "operator", "pipeline"] as const;
export type Door = (typeof DOORS)[number];

/** What is counted, in the order in which a row has the numbers. A new one goes to the end. */
export const COUNTED = [
  "first",
  "replay",
  "alreadyDone",
  "pending",
  "conflict",
  "lapsed",
  "failure",
  "unavailable",
] as const;
export type Counted = (typeof COUNTED)[number];

const KINDS: Partial<Record<GuardEvent["kind"], Counted>> = {
  claimed: "first",
  "taken-over": "first",
  replayed: "replay",
  "replay-not-kept": "alreadyDone",
  "replay-unreadable": "alreadyDone",
  "replay-expired": "alreadyDone",
  pending: "pending",
  conflict: "conflict",
  lapsed: "lapsed",
  abandoned: "failure",
  unavailable: "unavailable",
};

/** Undefined for an event that is not counted. */
export function countedAs(event: GuardEvent): Counted | undefined {
  if (isQuotaEvent(event)) return undefined;
  return event.kind === "replayed" && event.refused ? "alreadyDone" : KINDS[event.kind];
}

/** The numbers of one door and operation, as a row has them. */
export interface TallyLine {
  readonly namespace: string;
  readonly door: string;
  readonly operation: string;
  readonly counts: readonly number[];
}

export interface OperationTally {
  add(line: TallyLine): void;
  lines(): readonly TallyLine[];
}

const OTHER = "other";
/** A longer operation is counted as `other`, so that a row stays small. */
const MAX_OPERATION_BYTES = 128;
const MAX_NAMESPACES = 50;
const TEXT = new TextEncoder();

/** `max` lines in all and half of them for one namespace; further operations are `other`. */
export function createTally(max: number): OperationTally {
  const lines = new Map<string, TallyLine & { readonly counts: number[] }>();
  const sizes = new Map<string, number>();
  let size = 0;

  function findLine(namespace: string, door: string, operation: string): { readonly counts: number[] } {
    const name = JSON.stringify([namespace, door, operation]);
    const known = lines.get(name);
    if (known !== undefined) return known;
    if (operation !== OTHER) {
      const own = sizes.get(namespace) ?? 0;
      const isTooLong = TEXT.encode(operation).length > MAX_OPERATION_BYTES;
      if (isTooLong || size >= max || own >= max / 2) return findLine(namespace, door, OTHER);
      size++;
      sizes.set(namespace, own + 1);
    } else if (!sizes.has(namespace)) sizes.set(namespace, 0);
    const made = { namespace, door, operation, counts: COUNTED.map(() => 0) };
    lines.set(name, made);
    return made;
  }

  return {
    add({ namespace, door, operation, counts }) {
      const isNew = !sizes.has(namespace) && sizes.size >= MAX_NAMESPACES;
      const line = isNew ? findLine("", door, OTHER) : findLine(namespace, door, operation);
      counts.forEach((count, index) => {
        line.counts[index] = (line.counts[index] ?? 0) + count;
      });
    },
    lines: () => [...lines.values()],
  };
}
