/** The brokers under test. Each test gets its own queue, which is removed when the test ends. */
import { randomBytes } from "node:crypto";
import { AckPolicy, DeliverPolicy, jetstreamManager, RetentionPolicy, StorageType } from "@nats-io/jetstream";
import { connect as connectToNats, headers, nanos } from "@nats-io/transport-node";
import { connect as connectToRabbitmq } from "amqplib";
import { type ServiceName, sharedUrl } from "../services/services.ts";
import type { Scene } from "./subjects.ts";

export interface Broker {
  readonly name: string;
  /** The file of workers/ that consumes its messages. */
  readonly worker: "rabbitmq" | "nats";
  readonly service: ServiceName;
  readonly open: (scene: Scene) => Promise<Queue>;
}

export interface Queue {
  /** What the worker needs to connect. */
  readonly source: object;
  /** Resolves when the broker has accepted all messages. */
  publish(ids: readonly string[]): Promise<void>;
  /** How many messages it has not delivered to any consumer. */
  waiting(): Promise<number>;
  /** How many messages are not acknowledged. Call it only while no consumer is connected. */
  left(): Promise<number>;
  /** How many messages were rejected and are now in the dead-letter queue. */
  rejected(): Promise<number>;
}

/** How long NATS waits before it redelivers the message of a dead process. RabbitMQ notices the closed connection immediately. */
const ACK_WAIT_MS = 2_000;

export const RABBITMQ: Broker = {
  name: "RabbitMQ",
  worker: "rabbitmq",
  service: "rabbitmq",
  async open(scene) {
    const url = sharedUrl(scene, "rabbitmq");
    const queue = freshName();
    const rejected = `${queue}-rejected`;
    const connection = await connectToRabbitmq(url);
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue(rejected);
    await channel.assertQueue(queue, { deadLetterExchange: "", deadLetterRoutingKey: rejected });
    scene.onTestFinished(async () => {
      await channel.deleteQueue(queue);
      await channel.deleteQueue(rejected);
      await connection.close();
    });
    const countOf = async (name: string) => (await channel.checkQueue(name)).messageCount;
    return {
      source: { url, queue },
      async publish(ids) {
        for (const id of ids) channel.sendToQueue(queue, Buffer.from("{}"), { messageId: id });
        await channel.waitForConfirms();
      },
      waiting: () => countOf(queue),
      left: () => countOf(queue),
      rejected: () => countOf(rejected),
    };
  },
};

export const NATS: Broker = {
  name: "NATS JetStream",
  worker: "nats",
  service: "nats",
  async open(scene) {
    const url = process.env.H2_NATS ?? sharedUrl(scene, "nats");
    const stream = freshName();
    const connection = await connectToNats({ servers: url });
    const manager = await jetstreamManager(connection);
    await manager.streams.add({
      name: stream,
      subjects: [stream],
      retention: RetentionPolicy.Workqueue,
      storage: StorageType.Memory,
    });
    await manager.consumers.add(stream, {
      durable_name: stream,
      ack_policy: AckPolicy.Explicit,
      deliver_policy: DeliverPolicy.All,
      ack_wait: nanos(ACK_WAIT_MS),
      max_ack_pending: -1,
    });
    scene.onTestFinished(async () => {
      await manager.streams.delete(stream);
      await connection.close();
    });
    const info = () => manager.consumers.info(stream, stream);
    const terminated = connection.subscribe(`$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.${stream}.>`);
    return {
      source: { url, stream },
      async publish(ids) {
        const client = manager.jetstream();
        const batches = Array.from({ length: Math.ceil(ids.length / 1_000) }, (_, index) =>
          ids.slice(index * 1_000, (index + 1) * 1_000),
        );
        for (const batch of batches)
          await Promise.all(
            batch.map((id) => {
              // Not as Nats-Msg-Id: the server itself would drop a message that is sent again within two minutes.
              const named = headers();
              named.set("message-id", id);
              return client.publish(stream, "{}", { headers: named });
            }),
          );
      },
      waiting: async () => (await info()).num_pending,
      async left() {
        const { num_pending, num_ack_pending } = await info();
        return num_pending + num_ack_pending;
      },
      rejected: async () => terminated.getReceived(),
    };
  },
};

export const BROKERS = [RABBITMQ, NATS] as const;

function freshName(): string {
  return `deliveries-${randomBytes(6).toString("hex")}`;
}
