/** Judges what the processes of workers/messenger.js did: the rows of `orders` are what was committed, the file is what was delivered. */

/** The application's table, for any of the databases. */
export const ORDERS_TABLE =
  "CREATE TABLE orders (producer int NOT NULL, number int NOT NULL, lane int NOT NULL)";

export interface Order {
  readonly producer: number;
  readonly number: number;
  readonly lane: number;
}

export interface DeliveredOrder extends Order {
  readonly id: string;
}

/** What is wrong, in words; empty if every promise was kept. */
export function messageProblems(
  committed: readonly Order[],
  delivered: readonly DeliveredOrder[],
): readonly string[] {
  const name = ({ producer, number }: Order) => `${producer}-${number}`;
  const committedNames = new Set(committed.map(name));
  const ids = new Map<string, Set<string>>();
  const lanes = new Map<string, number>();
  const problems: string[] = [];
  if (committedNames.size < committed.length) problems.push("an order was committed twice");
  for (const each of delivered) {
    if (!committedNames.has(name(each))) problems.push(`${name(each)} was delivered and never committed`);
    const known = ids.get(name(each));
    ids.set(name(each), (known ?? new Set()).add(each.id));
    // A repeated delivery may come late. Only the first one of each message counts for the order.
    if (known !== undefined) continue;
    const lane = `${each.producer}/${each.lane}`;
    const last = lanes.get(lane) ?? -1;
    if (each.number < last) problems.push(`${name(each)} was delivered after ${last} of its key`);
    lanes.set(lane, Math.max(last, each.number));
  }
  for (const [order, own] of ids)
    if (own.size > 1) problems.push(`${order} was delivered with ${own.size} ids`);
  for (const order of committedNames)
    if (!ids.has(order)) problems.push(`${order} was committed and never delivered`);
  return problems;
}
