/**
 * Checks the chain of each resource: every event contains the hash of the one before it. Events are read in the order of their
 * subjects, so each link is kept until both of its events were read. A long chain is divided into blocks, so that a round
 * keeps only a share of it in memory.
 */
import { type JournalEvent, resourceSubject } from "../journal.ts";
import { type Judgement, openJudgement } from "./findings.ts";
import { getOrCreate } from "./page-scan.ts";

/** The chain of a resource: how many events it has, and the last one. */
export interface Ledger {
  count: number;
  last: number;
  hash: string;
}

/** Two successive events of a resource. */
interface ChainLink {
  readonly resource: string;
  readonly entry: number;
  /** The hash of the event `entry`. */
  hash: string | undefined;
  /** What the next event contains as `previous`. */
  next: string | undefined;
}

export interface Links {
  /** Adds the event to the links of this share. */
  add(event: JournalEvent): void;
  /** Adds it only to links whose first event was not found. Such an event was committed after its page was read. */
  addLate(event: JournalEvent): void;
  /** Whether a link lacks its first event. */
  areIncomplete(): boolean;
  /** The judgement of all links. Those that still lack their first event are broken. */
  judge(): Judgement;
}

const BLOCK = 256;

export function createLinks(isMine: (name: string) => boolean): Links {
  const links = new Map<string, ChainLink>();
  const judgement = openJudgement();

  function meet(resource: string, entry: number, part: Partial<Pick<ChainLink, "hash" | "next">>): void {
    if (!isMine(`${Math.floor(entry / BLOCK)} ${resource}`)) return;
    const name = toName(resource, entry);
    const link = getOrCreate(links, name, () => ({ resource, entry, hash: undefined, next: undefined }));
    if (part.hash !== undefined && link.hash !== undefined)
      judgement.check("J1", resourceSubject(resource), false, `two events are entry ${entry} of its chain`);
    link.hash ??= part.hash;
    link.next ??= part.next;
    if (link.hash === undefined || link.next === undefined) return;
    const problem = `entry ${entry + 1} of its chain does not contain the hash of entry ${entry}`;
    judgement.check("J1", resourceSubject(resource), link.hash === link.next, problem);
    links.delete(name);
  }

  return {
    add({ resource, entry, previous, hash, subject }) {
      if (resource === undefined || entry === 0) {
        const isAlone = resource === undefined && entry === 0 && previous === "";
        if (isMine(subject)) judgement.check("J1", subject, isAlone, "it belongs to no chain");
        return;
      }
      meet(resource, entry, { hash });
      if (entry > 1) meet(resource, entry - 1, { next: previous });
      else if (isMine(resource))
        judgement.check(
          "J1",
          resourceSubject(resource),
          previous === "",
          "its first event has a previous one",
        );
    },
    addLate({ resource, entry, hash }) {
      if (resource === undefined) return;
      const link = links.get(toName(resource, entry));
      if (link !== undefined && link.hash === undefined) meet(resource, entry, { hash });
    },
    areIncomplete: () => [...links.values()].some(({ hash }) => hash === undefined),
    judge() {
      for (const { resource, entry, hash } of links.values())
        if (hash === undefined)
          judgement.check("J1", resourceSubject(resource), false, `entry ${entry} of its chain is missing`);
      links.clear();
      return judgement;
    },
  };
}

function toName(resource: string, entry: number): string {
  return `${entry} ${resource}`;
}

export function addToLedger(ledger: Ledger, { entry, hash }: JournalEvent): void {
  ledger.count++;
  if (entry <= ledger.last) return;
  ledger.last = entry;
  ledger.hash = hash;
}

/** How the length and the last hash in a row differ from its events. */
export function ledgerProblem(
  row: { readonly events: number; readonly lastHash: string },
  { count, hash }: Pick<Ledger, "count" | "hash">,
): string | undefined {
  if (row.events !== count) return `its row counts ${row.events} events, but there are ${count}`;
  return row.lastHash === hash ? undefined : "the last hash in its row is not that of its chain";
}
