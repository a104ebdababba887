/** Consumes messages from a RabbitMQ queue, for the processes of a trial. */
import { connect } from "amqplib";
import { consumeRabbitmq } from "../../../dist/events/rabbitmq.js";

export { messageId as idOf } from "../../../dist/events/rabbitmq.js";

/** @typedef {import("amqplib").ConsumeMessage} Message */

/**
 * @param {{ url: string, queue: string, prefetch: number }} source
 * @param {import("./consumer.js").Handler<Message>} handle
 * @param {{ acknowledgesFirst: boolean }} how
 */
export async function take({ url, queue, prefetch }, handle, { acknowledgesFirst }) {
  const connection = await connect(url);
  const channel = await connection.createChannel();
  // A message that was acknowledged first must not be acknowledged again: RabbitMQ would close the channel.
  const consumption = acknowledgesFirst
    ? await takeCarelessly(channel, queue, handle)
    : await consumeRabbitmq({ handle }, { channel, queue, prefetch });
  return {
    async close() {
      await consumption.close();
      await connection.close();
    },
  };
}

/**
 * @param {import("amqplib").Channel} channel
 * @param {string} queue
 * @param {import("./consumer.js").Handler<Message>} handle
 */
async function takeCarelessly(channel, queue, handle) {
  const { consumerTag } = await channel.consume(queue, (message) => {
    if (message === null) return;
    channel.ack(message);
    void handle(message);
  });
  return { close: () => channel.cancel(consumerTag) };
}
