/**
 * A world small enough to be searched exhaustively: two clients, few names, a clock of a few ticks. A client sends an action,
 * which is decided, committed and answered; it may crash after each of these steps. A client without an answer retries.
 */
import { hash } from "node:crypto";
import type { ActionRequest } from "../../src/reservations/action-request.ts";
import type { Answer } from "../../src/reservations/index.ts";
import type { KeptCommitment, KeptResource, KeyRecord, Rules, Writes } from "../../src/reservations/store.ts";

/** What a client may send: one action, or two in one transaction. */
export interface Op {
  readonly label: string;
  readonly parts: readonly Part[];
}

export interface Part {
  readonly key: string;
  readonly action: ActionRequest["action"];
  readonly parameters: Readonly<Record<string, unknown>>;
}

export type Client =
  | { readonly phase: "idle" }
  /** It asked, heard nothing, and will ask for nothing else before it knows. */
  | { readonly phase: "in doubt"; readonly op: Op }
  | { readonly phase: "decided"; readonly op: Op; readonly decision: Decision }
  /** Key rows that are not written yet: only with the mistake of writing them after the transaction. */
  | { readonly phase: "half committed"; readonly op: Op; readonly decision: Decision };

export interface Decision {
  readonly at: number;
  /** What the clock really said. */
  readonly clock: number;
  readonly answers: readonly Answer[];
  readonly writes: Writes;
}

/** What the judge remembers of a key during its window. */
export interface Bound {
  readonly part: string;
  readonly answer: Answer;
  readonly at: number;
}

export interface State {
  readonly now: number;
  readonly keys: ReadonlyMap<string, KeyRecord>;
  readonly resources: ReadonlyMap<string, KeptResource>;
  readonly commitments: ReadonlyMap<string, KeptCommitment>;
  readonly bound: ReadonlyMap<string, Bound>;
  readonly clients: readonly Client[];
}

export interface World {
  readonly name: string;
  readonly clients: number;
  readonly rules: Rules;
  readonly lastTick: number;
  readonly maxCommitments: number;
  readonly capacities: Readonly<Record<string, number>>;
  opsOf(client: number, state: State): readonly Op[];
}

export const CLIENTS = ["a", "b"] as const;
const NAMESPACE = "n";

export function firstState({ capacities, clients }: World): State {
  const resources = Object.entries(capacities).map(([name, capacity]) => {
    const chain = { events: 0, lastHash: "" };
    return [
      name,
      { namespace: NAMESPACE, name, capacity, taken: 0, state: "open", isDeclared: true, ...chain },
    ] as const;
  });
  return {
    now: 0,
    keys: new Map(),
    resources: new Map(resources),
    commitments: new Map(),
    bound: new Map(),
    clients: CLIENTS.slice(0, clients).map(() => ({ phase: "idle" })),
  };
}

export function partText({ key, action, parameters }: Part): string {
  return `${action} ${Object.values(parameters).join(" ")} by ${key}`;
}

export function toRequest(part: Part, newId: string): ActionRequest {
  const { key, action, parameters } = part;
  return {
    action,
    parameters,
    digest: partText(part),
    keyId: key,
    namespace: NAMESPACE,
    scope: "",
    key,
    newId,
    salt: "salt",
  };
}

/** The locks of a transaction: no other transaction decides on these rows until it ends. */
export function findLocks(parts: readonly Part[], { commitments }: State): Set<string> {
  const locks = new Set<string>();
  for (const { key, parameters } of parts) {
    const { id, resource } = parameters;
    locks.add(`key ${key}`);
    if (typeof resource === "string") locks.add(`resource ${resource}`);
    if (typeof id === "string") locks.add(`resource ${commitments.get(id)?.resource}`);
  }
  return locks;
}

export function lockedIn({ clients, ...state }: State): Set<string> {
  const locks = new Set<string>();
  for (const client of clients)
    if (client.phase === "decided" || client.phase === "half committed")
      for (const lock of findLocks(client.op.parts, { clients, ...state })) locks.add(lock);
  return locks;
}

export function withClient(state: State, index: number, client: Client): State {
  return { ...state, clients: state.clients.with(index, client) };
}

export function withWrites(state: State, writes: Omit<Writes, "events" | "checkpoint">): State {
  const keys = new Map(state.keys);
  const resources = new Map(state.resources);
  const commitments = new Map(state.commitments);
  for (const row of writes.keys) keys.set(row.id, row);
  for (const row of writes.resources) resources.set(row.name, row);
  for (const row of writes.commitments) commitments.set(row.id, row);
  return { ...state, keys, resources, commitments };
}

/** The identity of a state. Chains of hashes are left out, since they only grow. */
export function nameOfState({ now, keys, resources, commitments, bound, clients }: State): string {
  const text = [
    now,
    rowsText([...keys.values()].map(keyText)),
    rowsText([...resources.values()].map(resourceText)),
    rowsText([...commitments.values()].map(commitmentText)),
    rowsText([...bound].map(([key, { part, answer, at }]) => `${key} ${part} ${answerText(answer)} ${at}`)),
    clients.map(clientText).join("/"),
  ].join(";");
  return hash("sha1", text, "base64");
}

function clientText(client: Client): string {
  if (client.phase === "idle") return "";
  const { phase, op } = client;
  if (!("decision" in client)) return `${phase} ${op.label}`;
  const { at, answers, writes } = client.decision;
  const rows = [
    ...writes.keys.map(keyText),
    ...writes.resources.map(resourceText),
    ...writes.commitments.map(commitmentText),
  ];
  return `${phase} ${op.label} ${at} ${answers.map(answerText).join()} ${rowsText(rows)}`;
}

function rowsText(rows: string[]): string {
  return rows.sort().join(",");
}

function answerText(answer: Answer): string {
  if (!answer.ok) return answer.reason;
  return "id" in answer ? answer.id : "ok";
}

function keyText({ id, digest, answer, recordedAt }: KeyRecord): string {
  return `${id} ${digest} ${answerText(answer)} ${recordedAt}`;
}

function resourceText({ name, capacity, taken, state }: KeptResource): string {
  return `${name} ${capacity} ${taken} ${state}`;
}

function commitmentText(row: KeptCommitment): string {
  const { id, resource, requester, units, placedAt, expiresAt, state, endedAt, confirmedUnits, occupied } =
    row;
  return `${id} ${resource} ${requester} ${units} ${placedAt} ${expiresAt} ${state} ${endedAt} ${confirmedUnits} ${occupied}`;
}
