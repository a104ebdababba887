/** The nodes of a running network, each behind its buffers, and the edges between them. */
import type { Environment } from "./environment.ts";
import { stopped, whereOf } from "./environment.ts";
import { type Arrived, type Gathering, gatherInOrder } from "./gathering.ts";
import { createInbox, type Inbox } from "./inbox.ts";
import { gatherMatches, type Unmatched } from "./joining.ts";
import { childOf, type Failure, type Message, merged, type Settled, together, unsettled } from "./message.ts";
import type { NetworkModel, NodeModel, PortRef, Schema } from "./model.ts";
import { createNodeWork, type NodeWork } from "./node.ts";
import { keyIn } from "./node-key.ts";
import { reasonOf } from "./reason.ts";

/** Takes what leaves the network by an exposed port. What it throws makes the message be sent again, and no node run. */
export type OutHandler = (payload: never, message: OutMessage) => unknown;

export interface OutMessage {
  readonly id: string;
  readonly parents: readonly string[];
  readonly trace: string;
  /** It may have left before: an earlier delivery got at least as far as the last node with a key. */
  readonly isRecovered: boolean;
}

export interface Network {
  readonly inboxes: ReadonlyMap<string, Inbox>;
  readonly dispatch: Environment["dispatch"];
}

/** Where an out-port leads. */
interface Way {
  readonly edges: readonly PortRef[];
  readonly handlers: readonly OutHandler[];
  /** Left out where each in-port that it leads to checks the same. */
  readonly schema: Schema | undefined;
}

export function createNetwork(
  model: NetworkModel,
  environment: Omit<Environment, "dispatch">,
  handlers: Readonly<Record<string, OutHandler>>,
): Network {
  const inboxes = new Map<string, Inbox>();
  const ways = waysOf(model, handlers);
  const full: Environment = { ...environment, dispatch };

  async function dispatch(
    node: NodeModel,
    { emits, reply }: Parameters<Environment["dispatch"]>[1],
    message: Message,
    free: () => void,
  ): Promise<Settled> {
    const ends: (Settled | Promise<Settled>)[] = [];
    for (const [index, [port, payload]] of emits.entries()) {
      const way = ways.get(wayName(node.name, port));
      if (way === undefined) continue;
      const child = childOf(message, node.name, index, payload);
      const failed = (reason: string, verdict: Failure["verdict"], error: unknown) => {
        const where = whereOf(full, node.name, message);
        full.tell?.({ ...where, kind: "dispatch-failed", port, reason, error });
        const { network } = full;
        ends.push(
          unsettled({ verdict, network, node: node.name, phase: "dispatch", attempt: 0, reason, error }),
        );
      };
      let checked = payload;
      try {
        if (way.schema !== undefined) checked = await way.schema.check(payload);
      } catch (error) {
        failed("schema-mismatch", "reject", error);
        continue;
      }
      for (const edge of way.edges) {
        const inbox = inboxes.get(edge.node) as Inbox;
        ends.push((await inbox.put(edge.port, child)).settled);
      }
      for (const handler of way.handlers) {
        const { id, parents, trace, isRecovered } = child;
        try {
          await handler(checked as never, { id, parents, trace, isRecovered });
        } catch (error) {
          failed(reasonOf(error), "later", error);
        }
      }
    }
    free();
    return merged(await Promise.all(ends), reply);
  }

  for (const node of model.nodes.values()) inboxes.set(node.name, inboxOf(full, node));
  return { inboxes, dispatch };
}

function wayName(node: string, port: string): string {
  return JSON.stringify([node, port]);
}

function waysOf(
  model: NetworkModel,
  handlers: Readonly<Record<string, OutHandler>>,
): ReadonlyMap<string, Way> {
  const ways = new Map<string, Way>();
  for (const node of model.nodes.values()) {
    for (const [port, { schema }] of node.out) {
      const isHere = (ref: PortRef) => ref.node === node.name && ref.port === port;
      const edges = model.edges.filter(({ from }) => isHere(from)).map(({ to }) => to);
      const exposed = [...model.exposed.out].filter(([, ref]) => isHere(ref));
      const isCheckedThere = ({ node: name, port: inPort }: PortRef) =>
        schema !== undefined && model.nodes.get(name)?.in.get(inPort)?.schema?.name === schema.name;
      const isNeeded = exposed.length > 0 || !edges.every(isCheckedThere);
      ways.set(wayName(node.name, port), {
        edges,
        handlers: exposed.flatMap(([name]) => handlers[name] ?? []),
        schema: isNeeded ? schema : undefined,
      });
    }
  }
  return ways;
}

function inboxOf(environment: Environment, node: NodeModel): Inbox {
  const { timer, tell, stopping } = environment;
  const work = createNodeWork(environment, node);
  const refusal = unsettled(stopped(environment, node.name));
  const isStopping = () => stopping.hasRung;
  const { batch, delayMs } = node;
  // A source's messages come in by the port that they leave by, and wait nowhere else.
  const buffers =
    node.kind === "source"
      ? new Map([...node.out.keys()].map((port) => [port, 1]))
      : new Map([...node.in].map(([port, { buffer }]) => [port, Math.max(buffer, batch?.size ?? 1)]));
  const unmatched = (arrived: Arrived, why: Unmatched) =>
    void leaveUnmatched(environment, node, work, arrived, why);
  const gathering: Gathering =
    node.join === undefined
      ? gatherInOrder({ delayMs, batch }, isStopping, (arrived) => arrived.settle(refusal))
      : gatherMatches({
          join: node.join,
          ports: [...node.in.keys()],
          isStopping,
          keyOf: (arrived) => joinKey(environment, node, work, arrived),
          onUnmatched: unmatched,
        });
  return createInbox({
    timer,
    buffers,
    concurrency: node.concurrency,
    gathering,
    refusal,
    onFull: (port, message) =>
      tell?.({
        ...whereOf(environment, node.name, message),
        kind: "back-pressure",
        port,
        buffer: buffers.get(port) ?? 1,
      }),
    work:
      node.batch === undefined && node.join === undefined
        ? ([arrived], free) => workOnOne(work, arrived as Arrived, free)
        : (group, free) => workOnGroup(node, work, group, free, unmatched),
  });
}

async function workOnOne(
  work: NodeWork,
  { port, message, settle }: Arrived,
  free: () => void,
): Promise<void> {
  const checked = await work.validate(port, message);
  settle("verdict" in checked ? checked : await work.pass(port, checked, free));
}

/** What is not valid is settled by itself: it does not spoil the others of a batch, and leaves those of a join without a match. */
async function workOnGroup(
  node: NodeModel,
  work: NodeWork,
  group: readonly Arrived[],
  free: () => void,
  unmatched: (arrived: Arrived, why: Unmatched) => void,
): Promise<void> {
  const valid: { readonly arrived: Arrived; readonly message: Message }[] = [];
  for (const arrived of group) {
    const checked = await work.validate(arrived.port, arrived.message);
    if ("verdict" in checked) arrived.settle(checked);
    else valid.push({ arrived, message: checked });
  }
  const isJoin = node.join !== undefined;
  if (isJoin && valid.length < group.length) {
    for (const { arrived } of valid) unmatched(arrived, "unmatched");
    return;
  }
  const [first] = valid;
  if (first === undefined) return;
  const payload = isJoin
    ? Object.fromEntries(valid.map(({ arrived, message }) => [arrived.port, message.payload]))
    : valid.map(({ message }) => message.payload);
  const whole = together(
    valid.map(({ message }) => message),
    payload,
  );
  const settled = await work.pass(first.arrived.port, whole, free);
  for (const { arrived } of valid) arrived.settle(settled);
}

function joinKey(
  environment: Environment,
  node: NodeModel,
  work: NodeWork,
  { message, settle }: Arrived,
): string | undefined {
  try {
    return keyIn(message.payload, [node.join?.by as string]);
  } catch (error) {
    const failure = {
      verdict: "reject",
      phase: "validate",
      attempt: 0,
      reason: "key-missing",
      error,
    } as const;
    settle(work.fail(whereOf(environment, node.name, message), failure));
    return undefined;
  }
}

/** What found no match leaves by the dead-letter port as it came, or is to be sent again. */
async function leaveUnmatched(
  environment: Environment,
  node: NodeModel,
  work: NodeWork,
  { message, settle }: Arrived,
  why: Unmatched,
): Promise<void> {
  const deadLetter = node.join?.deadLetter;
  if (deadLetter === undefined || why === "stopping") {
    const failure = { verdict: "later", phase: "execute", attempt: 0, reason: why } as const;
    settle(work.fail(whereOf(environment, node.name, message), failure));
    return;
  }
  const kept = { run: "", emits: [[deadLetter, message.payload]] as const };
  settle(await environment.dispatch(node, kept, message, () => {}));
}
