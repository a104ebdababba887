/** A queue of fauxqs in this process, whose clock is a fake `Date`, and a guard with a memory store. */
import { randomUUID } from "node:crypto";
import { SQS } from "@aws-sdk/client-sqs";
import { type FauxqsServer, startFauxqs } from "fauxqs";
import { onTestFinished, vi } from "vitest";
import type { GuardOptions } from "../../../src/core/engine.ts";
import { type ConsumerOptions, consumer } from "../../../src/events/index.ts";
import {
  consumeSqs,
  type SqsConsumption,
  type SqsMessage,
  type SqsOptions,
  sentKey,
} from "../../../src/events/sqs.ts";
import { createGuard, type Guard } from "../../../src/functions/guard.ts";
import { memoryStore } from "../../../src/stores/memory.ts";
import { type ManualClock, manualClock } from "../../../src/testing/manual-clock.ts";

export interface Scene {
  readonly server: FauxqsServer;
  readonly client: SQS;
  readonly guard: Guard;
  /** The store's clock. The queue's clock is `Date`: see `advance`. */
  readonly clock: ManualClock;
  /** A new queue, and its URL. */
  queue(options?: { fifo?: boolean; attributes?: Record<string, string> }): string;
  /** How many messages the queue has, and how many of those are hidden. */
  count(queueUrl: string): { waiting: number; hidden: number };
  consume<T>(
    options: Partial<ConsumerOptions<SqsMessage, T>> & Pick<ConsumerOptions<SqsMessage, T>, "work">,
    of: Partial<SqsOptions> & { queueUrl: string },
  ): SqsConsumption;
}

export async function createScene(options: Partial<GuardOptions> = {}): Promise<Scene> {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const server = await startFauxqs({ port: 0, logger: false });
  onTestFinished(() => server.stop());
  const credentials = { accessKeyId: "test", secretAccessKey: "test" };
  const client = new SQS({ endpoint: server.address, region: "us-east-1", credentials });
  onTestFinished(() => client.destroy());
  const clock = manualClock();
  const guard = createGuard({ store: memoryStore({ clock }), purgeEveryMs: 0, drainMs: 0, ...options });
  onTestFinished(async () => void (await guard.close()));
  const consumptions: SqsConsumption[] = [];
  onTestFinished(async () => void (await Promise.all(consumptions.map((each) => each.close()))));

  return {
    server,
    client,
    guard,
    clock,
    queue({ fifo = false, attributes = {} } = {}) {
      const name = `q-${randomUUID().slice(0, 8)}${fifo ? ".fifo" : ""}`;
      const all = fifo ? { FifoQueue: "true", ...attributes } : attributes;
      const { queueUrl } = server.createQueue(name, { attributes: all });
      return queueUrl;
    },
    count(queueUrl) {
      const messages = server.inspectQueue(queueUrl.split("/").at(-1) ?? "")?.messages;
      return { waiting: messages?.ready.length ?? 0, hidden: messages?.inflight.length ?? 0 };
    },
    consume(of, sqs) {
      const consume = consumer(guard, { name: "shop", key: sentKey, ...of });
      const consumption = consumeSqs(consume, { client, waitMs: 1_000, ...sqs });
      consumptions.push(consumption);
      return consumption;
    },
  };
}

/** Advances the queue's clock. */
export function advance(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
}
