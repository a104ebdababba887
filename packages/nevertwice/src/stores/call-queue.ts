/**
 * The calls of a batch that wait to be sent. Urgent calls come first, in the order of their arrival. The others are taken from
 * their turns, one from each: so a caller with few calls does not wait behind another one's thousands.
 *
 *   queued: A1 A2 A3 … A3000 B1 ── taken: A1 B1 A2 A3 …
 */
import type { Parts } from "../core/store.ts";

let lastOwner: Pick<Parts, "namespace" | "scope"> = { namespace: "", scope: "" };
let lastTurn = "/";

/** Claims are taken from each scope in turn. The text need not be unambiguous. */
export function scopeTurn(parts: Pick<Parts, "namespace" | "scope">): string {
  const { namespace, scope } = parts;
  // Joining texts, and comparing joined ones, takes longer than everything else here, and most claims follow one of their scope.
  if (scope !== lastOwner.scope || namespace !== lastOwner.namespace) {
    lastOwner = { namespace, scope };
    lastTurn = `${namespace}/${scope}`;
  }
  return lastTurn;
}

/** A call in the queue. */
export interface Queueable<Self> {
  readonly isUrgent: boolean;
  /** Whose call it is. */
  readonly turn: string;
  /** The next one in its line; only the queue uses it. */
  next: Self | undefined;
}

export interface CallQueue<Entry> {
  readonly length: number;
  add(entry: Entry): void;
  /** The entry that is taken next. */
  first(): Entry | undefined;
  take(): Entry | undefined;
}

/** Linked, so that taking the first of thousands costs as little as taking the only one. */
interface Line<Item> {
  head: Item | undefined;
  tail: Item | undefined;
}

/** The entries of one turn. */
interface TurnLine<Entry> extends Line<Entry> {
  readonly name: string;
  next: TurnLine<Entry> | undefined;
}

export function createCallQueue<Entry extends Queueable<Entry>>(): CallQueue<Entry> {
  const urgent: Line<Entry> = { head: undefined, tail: undefined };
  /** The turns that have entries, the next one first. */
  const rotation: Line<TurnLine<Entry>> = { head: undefined, tail: undefined };
  const turns = new Map<string, TurnLine<Entry>>();
  let length = 0;

  function lineFor(name: string): TurnLine<Entry> {
    // The usual case: one turn only.
    if (rotation.head?.name === name) return rotation.head;
    let turn = turns.get(name);
    if (turn === undefined) {
      turn = { name, head: undefined, tail: undefined, next: undefined };
      turns.set(name, turn);
      append(rotation, turn);
    }
    return turn;
  }

  function takeFromTurn(): Entry | undefined {
    const turn = rotation.head;
    if (turn === undefined) return undefined;
    const entry = removeFirst(turn);
    if (turn.head === undefined) {
      removeFirst(rotation);
      turns.delete(turn.name);
    } else if (rotation.tail !== turn) {
      removeFirst(rotation);
      append(rotation, turn);
    }
    return entry;
  }

  return {
    get length() {
      return length;
    },
    add(entry) {
      length++;
      append(entry.isUrgent ? urgent : lineFor(entry.turn), entry);
    },
    first: () => urgent.head ?? rotation.head?.head,
    take() {
      const entry = removeFirst(urgent) ?? takeFromTurn();
      if (entry !== undefined) length--;
      return entry;
    },
  };
}

function append<Item extends { next: Item | undefined }>(line: Line<Item>, item: Item): void {
  if (line.tail === undefined) line.head = item;
  else line.tail.next = item;
  line.tail = item;
}

function removeFirst<Item extends { next: Item | undefined }>(line: Line<Item>): Item | undefined {
  const item = line.head;
  if (item === undefined) return undefined;
  line.head = item.next;
  if (line.head === undefined) line.tail = undefined;
  item.next = undefined;
  return item;
}
