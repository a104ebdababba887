/** Searches every state of a small world, breadth first, with a crash after every step, until a promise is broken. */

import { decide, neededRows } from "../../src/reservations/decision.ts";
import type { KeptCommitment, LockedRows, Writes } from "../../src/reservations/store.ts";
import { boundAfter, lostAnswer, wrongWith } from "./exhaustive-judge.ts";
import {
  CLIENTS,
  type Client,
  type Decision,
  findLocks,
  firstState,
  lockedIn,
  nameOfState,
  type Op,
  type State,
  toRequest,
  type World,
  withClient,
  withWrites,
} from "./exhaustive-world.ts";

/** Deliberate mistakes that the search must find. */
export type Mistake =
  | "a key's answer is removed a tick before its window ends"
  | "confirm ignores the clock"
  | "an expired hold can expire again"
  | "the answer is written after the transaction"
  | "the clock is read before the locks are taken"
  | "nothing is locked";

export interface Searched {
  readonly states: number;
  readonly steps: number;
  readonly crashes: number;
  /** All that can come about in so many steps was looked at. */
  readonly depth: number;
  readonly isComplete: boolean;
  /** What was wrong, and how it came about. */
  readonly wrong?: { readonly what: string; readonly story: readonly string[] };
}

interface Move {
  readonly label: string;
  readonly isCrash?: boolean;
  readonly to?: State;
  readonly wrong?: string | undefined;
}

export function search(world: World, { most, mistake }: { most: number; mistake?: Mistake }): Searched {
  const start = firstState(world);
  const seen = new Set([nameOfState(start)]);
  const states: (State | undefined)[] = [start];
  const parents: number[] = [-1];
  const labels: string[] = [""];
  const depths: number[] = [0];
  let steps = 0;
  let crashes = 0;
  let next = 0;
  for (; next < states.length && states.length < most; next++) {
    const state = states[next] as State;
    states[next] = undefined;
    for (const { label, isCrash, to, wrong } of movesFrom(world, state, mistake)) {
      steps++;
      if (isCrash) crashes++;
      // With late answers, answers are missing for a while; the search looks for the consequences.
      const isLate = mistake === "the answer is written after the transaction";
      const what = wrong ?? (to === undefined || isLate ? undefined : lostAnswer(world, to));
      if (what !== undefined) {
        const story = [label];
        for (let index = next; index > 0; index = parents[index] as number)
          story.unshift(labels[index] as string);
        return {
          states: states.length,
          steps,
          crashes,
          depth: depths[next] as number,
          isComplete: false,
          wrong: { what, story },
        };
      }
      if (to === undefined) continue;
      const name = nameOfState(to);
      if (seen.has(name)) continue;
      seen.add(name);
      states.push(to);
      parents.push(next);
      labels.push(label);
      depths.push((depths[next] as number) + 1);
    }
  }
  return {
    states: states.length,
    steps,
    crashes,
    depth: depths[Math.min(next, states.length - 1)] as number,
    isComplete: next === states.length,
  };
}

function* movesFrom(world: World, state: State, mistake: Mistake | undefined): Generator<Move> {
  if (state.now < world.lastTick)
    yield { label: "tick", to: forgetful(world, { ...state, now: state.now + 1 }) };
  yield purge(state, mistake);
  yield* sweep(world, state, mistake);
  for (const [index, client] of state.clients.entries()) {
    const who = CLIENTS[index] as string;
    if (client.phase === "idle")
      for (const op of world.opsOf(index, state)) yield* deciding(world, state, index, op, mistake);
    else if (client.phase === "in doubt") yield* deciding(world, state, index, client.op, mistake);
    else {
      yield* committing(world, state, index, client, mistake);
      yield { label: `${who}'s transaction is cut off`, isCrash: true, to: inDoubt(state, index, client.op) };
    }
  }
}

function inDoubt(state: State, index: number, op: Op): State {
  return withClient(state, index, { phase: "in doubt", op });
}

function* deciding(
  world: World,
  state: State,
  index: number,
  op: Op,
  mistake: Mistake | undefined,
): Generator<Move> {
  const who = CLIENTS[index] as string;
  const locked = lockedIn(state);
  if (mistake !== "nothing is locked" && [...findLocks(op.parts, state)].some((lock) => locked.has(lock)))
    return;
  const readings =
    mistake === "the clock is read before the locks are taken" && state.now > 0
      ? [state.now, state.now - 1]
      : [state.now];
  for (const at of readings) {
    const label = `${who}: ${op.label}`;
    try {
      const decision = decideRequest(world, state, who, op, at, mistake);
      yield { label, to: withClient(state, index, { phase: "decided", op, decision }) };
    } catch (error) {
      yield { label, wrong: String(error) };
    }
  }
  // The request is lost in transit.
  if (state.clients[index]?.phase === "idle")
    yield { label: `${who}'s ${op.label} is lost`, isCrash: true, to: inDoubt(state, index, op) };
}

function decideRequest(
  world: World,
  state: State,
  who: string,
  op: Op,
  at: number,
  mistake: Mistake | undefined,
): Decision {
  const taken = [...state.commitments.keys()]
    .filter((id) => id.startsWith(who))
    .map((id) => Number(id.slice(1)));
  const first = Math.max(-1, ...taken) + 1;
  const group = op.parts.map((part, index) => toRequest(part, `${who}${first + index}`));
  const found = doctored(foundFor(group, state, at), op, mistake);
  const { answers, writes } = decide(group, found, at, world.rules, "checkpoint");
  return { at, clock: state.now, answers, writes: plain(writes, state) };
}

function foundFor(group: Parameters<typeof neededRows>[0], state: State, at: number): LockedRows {
  const held = [...state.commitments.values()].filter((row) => row.state === "held" && row.expiresAt <= at);
  const old = (name: string) =>
    held
      .filter(({ resource }) => resource === name)
      .sort((a, b) => a.expiresAt - b.expiresAt || (a.id < b.id ? -1 : 1));
  return {
    ...state,
    elapsed: new Map(neededRows(group).placements.map(({ resource }) => [resource, old(resource)])),
  };
}

/** The rows as a store with this mistake would show them. */
function doctored(found: LockedRows, { parts }: Op, mistake: Mistake | undefined): LockedRows {
  const [first] = parts;
  const change = (row: KeptCommitment): KeptCommitment => {
    if (mistake === "confirm ignores the clock" && first?.action === "confirm")
      return { ...row, expiresAt: Number.MAX_SAFE_INTEGER };
    if (
      mistake === "an expired hold can expire again" &&
      first?.action === "expire" &&
      row.state === "expired"
    )
      return { ...row, state: "held", endedAt: undefined, occupied: row.units };
    return row;
  };
  const commitments = new Map([...found.commitments].map(([id, row]) => [id, change(row)]));
  return { ...found, commitments };
}

/** Frozen and without the chains of hashes, so that states differ only in what matters. */
function plain(writes: Writes, { commitments }: State): Writes {
  const chain = { events: 0, lastHash: "" };
  return {
    ...writes,
    keys: writes.keys.map((row) => Object.freeze(row)),
    resources: writes.resources.map((row) => Object.freeze({ ...row, ...chain })),
    commitments: writes.commitments.map((row) =>
      Object.freeze({ ...row, ...chain, expiresAt: commitments.get(row.id)?.expiresAt ?? row.expiresAt }),
    ),
  };
}

function* committing(
  world: World,
  state: State,
  index: number,
  client: Extract<Client, { decision: Decision }>,
  mistake: Mistake | undefined,
): Generator<Move> {
  const { op, decision, phase } = client;
  const { writes } = decision;
  const answers = decision.answers.map((answer) => JSON.stringify(answer)).join(", ");
  const label = `${CLIENTS[index]}'s ${op.label} is committed: ${answers}`;
  const isSplit = mistake === "the answer is written after the transaction";
  if (phase === "half committed") {
    yield* replying(
      withWrites(state, { keys: writes.keys, resources: [], commitments: [] }),
      index,
      op,
      label,
    );
    return;
  }
  const written = withWrites(state, { ...writes, keys: isSplit ? [] : writes.keys });
  const wrong = wrongWith(world, state, written, op, decision);
  const bound = boundAfter(world, state, op, decision);
  if (wrong !== undefined) yield { label, wrong };
  else if (isSplit) {
    // Only effects are remembered: that the key is missing shows when the action happens again.
    const half = { ...written, bound: writes.events.length === 0 ? state.bound : bound };
    yield { label, to: withClient(half, index, { phase: "half committed", op, decision }) };
  } else {
    const over = withClient({ ...written, bound }, index, { phase: "idle" });
    yield* replying(forgetful(world, over), index, op, label);
  }
}

/** The answer arrives or is lost. Only the client can see the difference, so no other step comes in between. */
function* replying(state: State, index: number, op: Op, label: string): Generator<Move> {
  yield { label, to: withClient(state, index, { phase: "idle" }) };
  yield { label: `${label}, and the reply is lost`, isCrash: true, to: inDoubt(state, index, op) };
}

function purge(state: State, mistake: Mistake | undefined): Move {
  const early = mistake === "a key's answer is removed a tick before its window ends" ? 1 : 0;
  const locked = lockedIn(state);
  const kept = [...state.keys].filter(
    ([id, { keptUntil }]) => state.now < keptUntil - early || locked.has(`key ${id}`),
  );
  return kept.length === state.keys.size
    ? { label: "purge" }
    : { label: "purge", to: { ...state, keys: new Map(kept) } };
}

/** Expires each elapsed hold in its own transaction. */
function* sweep(world: World, state: State, mistake: Mistake | undefined): Generator<Move> {
  for (const { id, state: phase, expiresAt } of state.commitments.values()) {
    if (phase !== "held" || state.now < expiresAt) continue;
    const op: Op = {
      label: `sweep ${id}`,
      parts: [{ key: `s-${id}`, action: "expire", parameters: { id } }],
    };
    const locked = lockedIn(state);
    if ([...findLocks(op.parts, state)].some((lock) => locked.has(lock))) continue;
    const decision = decideRequest(world, state, "", op, state.now, mistake);
    const written = withWrites(state, decision.writes);
    const wrong = wrongWith(world, state, written, op, decision);
    yield { label: op.label, wrong, to: { ...written, bound: boundAfter(world, state, op, decision) } };
  }
}

/** The judge forgets keys whose window has ended, also for decisions that are not committed yet. */
function forgetful({ rules: { windowMs } }: World, state: State): State {
  const decided = state.clients.flatMap((client) => ("decision" in client ? [client.decision.at] : []));
  const oldest = Math.min(state.now, ...decided);
  return { ...state, bound: new Map([...state.bound].filter(([, { at }]) => oldest < at + windowMs)) };
}
