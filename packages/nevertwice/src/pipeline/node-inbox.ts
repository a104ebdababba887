/** The inbox of one node, as its model describes it: buffers, concurrency, and in which groups it takes messages. */
import { createInbox, type Inbox, type InboxOptions } from "./inbox.ts";
import { createJoinQueue, type JoinQueueOptions } from "./join-queue.ts";
import { toOutcome } from "./message-outcome.ts";
import { createMessageQueue } from "./message-queue.ts";
import type { NodeModel } from "./model.ts";
import { eventPlace, type NetworkContext, stoppingFailure } from "./network-context.ts";

export interface NodeInboxHandlers
  extends Pick<InboxOptions, "work">,
    Pick<JoinQueueOptions, "onUnmatched" | "readJoinKey"> {}

export function createNodeInbox(
  context: NetworkContext,
  node: NodeModel,
  { work, readJoinKey, onUnmatched }: NodeInboxHandlers,
): Inbox {
  const { timer, report, stopping } = context;
  const { batch, delayMs, join, concurrency } = node;
  const refusal = toOutcome(stoppingFailure(context, node.name));
  const isStopping = () => stopping.hasFired;
  const buffers = bufferSizes(node);
  const queue =
    join === undefined
      ? createMessageQueue({ delayMs, batch }, isStopping, (queued) => queued.settle(refusal))
      : createJoinQueue({ join, ports: [...node.in.keys()], isStopping, readJoinKey, onUnmatched });
  return createInbox({
    timer,
    buffers,
    concurrency,
    queue,
    work,
    refusal,
    onFull: (port, message) =>
      report?.({
        ...eventPlace(context, node.name, message),
        kind: "back-pressure",
        port,
        buffer: buffers.get(port) ?? 1,
      }),
  });
}

function bufferSizes({ kind, in: inPorts, out, batch }: NodeModel): ReadonlyMap<string, number> {
  // A source's messages are delivered to the port by which they leave it, one at a time.
  if (kind === "source") return new Map([...out.keys()].map((port) => [port, 1]));
  return new Map([...inPorts].map(([port, { buffer }]) => [port, Math.max(buffer, batch?.size ?? 1)]));
}
