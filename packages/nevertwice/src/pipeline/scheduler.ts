/**
 * Moves messages through a network. It owns the inbox of every node, hands each node its messages, and sends what the node
 * returns to the inboxes of the next nodes. Nodes do not call each other:
 *
 *     deliver ─▶ inbox ─▶ node.validate ─▶ node.run ─▶ result ─┬─ ended ──────────────────────────────▶ outcome
 *                  ▲                                           └─ forward ─▶ settlement ─▶ send ─┐        ▲
 *                  └────────────────────── a child for each edge ────────────────────────────────┘        │
 *                                                                     all children have ended ────────────┘
 */
import { failureReason } from "./failure-reason.ts";
import type { Inbox, InboxPlace } from "./inbox.ts";
import type { NoMatchReason } from "./join-queue.ts";
import { combineMessages, createChild, type Message } from "./message.ts";
import { type DispatchProblem, invalidMessage } from "./message-endings.ts";
import { type MessageOutcome, mergeOutcomes } from "./message-outcome.ts";
import type { QueuedMessage } from "./message-queue.ts";
import type { NetworkModel, NodeModel, PortRef } from "./model.ts";
import { eventPlace, type NetworkContext } from "./network-context.ts";
import { createNode, type Node } from "./node.ts";
import { createNodeInbox } from "./node-inbox.ts";
import { keyFrom } from "./node-key.ts";
import type { NodeOutcome } from "./node-outcome.ts";
import { createRoutes, type OutHandler } from "./routes.ts";
import { sendUnderSettlement } from "./settlement-claim.ts";

export interface Scheduler {
  /** Resolves when the message has a place in the node's inbox. Rejects if the signal fires before. */
  deliver(to: PortRef, message: Message, signal?: AbortSignal): Promise<InboxPlace>;
  counts(node: string): ReturnType<Inbox["counts"]>;
  /** The network stops: nodes take what is ready, and return what would have waited. */
  stop(): void;
  /** Returns every message that no node has started. */
  halt(): void;
}

type Output = Pick<NodeOutcome, "emits" | "reply">;

export function createScheduler(
  model: NetworkModel,
  context: NetworkContext,
  handlers: Readonly<Record<string, OutHandler>>,
): Scheduler {
  const findRoute = createRoutes(model, handlers);
  const inboxes = new Map([...model.nodes.values()].map((node) => [node.name, createStation(node)]));

  function createStation(nodeModel: NodeModel): Inbox {
    const node = createNode(context, nodeModel);
    const isGrouped = nodeModel.batch !== undefined || nodeModel.join !== undefined;
    return createNodeInbox(context, nodeModel, {
      work: isGrouped
        ? (group, free) => handleGroup(node, group, free)
        : ([queued], free) => handleOne(node, queued as QueuedMessage, free),
      readJoinKey: (queued) => readJoinKey(node, queued),
      onUnmatched: (queued, why) => void settleUnmatched(node, queued, why),
    });
  }

  function inboxFor(node: string): Inbox {
    const inbox = inboxes.get(node);
    if (inbox === undefined) throw new TypeError(`${node} is not a node`);
    return inbox;
  }

  async function handleOne(node: Node, { port, message, settle }: QueuedMessage, free: () => void) {
    const valid = await node.validate(port, message);
    settle("verdict" in valid ? valid : await process(node, port, valid, free));
  }

  /** The whole way of one message from this node on. Never rejects. */
  async function process(
    node: Node,
    port: string,
    message: Message,
    free: () => void,
  ): Promise<MessageOutcome> {
    const result = await node.run(port, message, free);
    if (result.kind === "ended") return result.outcome;
    const { forward } = result;
    try {
      return await sendUnderSettlement({ context, node, forward, send });
    } catch (error) {
      return node.endings.threw(forward.place, error);
    }
  }

  /**
   * Sends output to every inbox and handler that its ports lead to, and resolves when all of it has ended. `free` is called
   * when each child has a place: until then a full inbox makes this node wait.
   */
  async function send(
    node: Node,
    { emits, reply }: Output,
    message: Message,
    free: () => void,
  ): Promise<MessageOutcome> {
    if (reply !== undefined) message.waiter?.reply(reply.value);
    const outcomes: (MessageOutcome | Promise<MessageOutcome>)[] = [];
    for (const [index, [port, payload]] of emits.entries()) {
      const child = createChild(message, node.model.name, index, payload);
      outcomes.push(...(await sendChild(node, port, child, message)));
    }
    free();
    return mergeOutcomes(await Promise.all(outcomes), reply);
  }

  async function sendChild(
    { model: { name, out }, endings }: Node,
    port: string,
    child: Message,
    message: Message,
  ): Promise<readonly (MessageOutcome | Promise<MessageOutcome>)[]> {
    const failed = (problem: DispatchProblem) =>
      endings.dispatchFailed(eventPlace(context, name, message), { port, ...problem });
    const route = findRoute(name, port);
    if (route === undefined) {
      // An earlier version of the node stored it, or an operator wrote it: it must not get lost.
      const ports = out.size === 0 ? "it has none" : `it has ${[...out.keys()].join(", ")}`;
      const error = new Error(`the node ${name} has no out-port ${JSON.stringify(port)}; ${ports}`);
      return [failed({ reason: "unknown-port", error })];
    }
    let checked = child.payload;
    try {
      if (route.schema !== undefined) checked = await route.schema.check(child.payload);
    } catch (error) {
      return [failed({ reason: "schema-mismatch", error })];
    }
    const outcomes: (MessageOutcome | Promise<MessageOutcome>)[] = [];
    for (const edge of route.edges) outcomes.push((await inboxFor(edge.node).put(edge.port, child)).outcome);
    for (const handler of route.handlers) {
      const { id, parents, trace, isRecovered } = child;
      try {
        await handler(checked as never, { id, parents, trace, isRecovered });
      } catch (error) {
        outcomes.push(failed({ verdict: "later", reason: failureReason(error), error }));
      }
    }
    return outcomes;
  }

  /** An invalid message ends alone. The rest of a batch is still processed; the rest of a join has no match. */
  async function handleGroup(node: Node, group: readonly QueuedMessage[], free: () => void): Promise<void> {
    const valid: { readonly queued: QueuedMessage; readonly message: Message }[] = [];
    for (const queued of group) {
      const message = await node.validate(queued.port, queued.message);
      if ("verdict" in message) queued.settle(message);
      else valid.push({ queued, message });
    }
    const isJoin = node.model.join !== undefined;
    if (isJoin && valid.length < group.length) {
      for (const { queued } of valid) void settleUnmatched(node, queued, "unmatched");
      return;
    }
    const [first] = valid;
    if (first === undefined) return;
    const payload = isJoin
      ? Object.fromEntries(valid.map(({ queued, message }) => [queued.port, message.payload]))
      : valid.map(({ message }) => message.payload);
    const messages = valid.map(({ message }) => message);
    const outcome = await process(node, first.queued.port, combineMessages(messages, payload), free);
    for (const { queued } of valid) queued.settle(outcome);
  }

  function readJoinKey(node: Node, { message, settle }: QueuedMessage): string | undefined {
    const { name, join } = node.model;
    try {
      return keyFrom(message.payload, [join?.by as string]);
    } catch (error) {
      settle(node.endings.failed(eventPlace(context, name, message), invalidMessage("key-missing", error)));
      return undefined;
    }
  }

  /** A message without a match leaves unchanged by the dead-letter port. Without such a port it is sent again later. */
  async function settleUnmatched(node: Node, { message, settle }: QueuedMessage, why: NoMatchReason) {
    const { name, join } = node.model;
    if (join?.deadLetter !== undefined && why !== "stopping") {
      const place = eventPlace(context, name, message);
      context.report?.({ ...place, kind: "dead-lettered", port: join.deadLetter });
      settle(await send(node, { emits: [[join.deadLetter, message.payload]] }, message, () => {}));
      return;
    }
    const failure = { verdict: "later", phase: "execute", attempt: 0, reason: why } as const;
    settle(node.endings.failed(eventPlace(context, name, message), failure));
  }

  return {
    deliver: ({ node, port }, message, signal) => inboxFor(node).put(port, message, signal),
    counts: (node) => inboxFor(node).counts(),
    stop() {
      for (const inbox of inboxes.values()) inbox.pump();
    },
    halt() {
      for (const inbox of inboxes.values()) inbox.halt();
    },
  };
}
