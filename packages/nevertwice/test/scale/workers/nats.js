/** Consumes messages from NATS JetStream, for the processes of a trial. */
import { jetstream } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { consumeNats } from "../../../dist/events/nats.js";

/** @typedef {import("@nats-io/jetstream").JsMsg} Message */

/** @param {Message} message */
export function idOf(message) {
  return message.headers?.get("message-id");
}

/**
 * @param {{ url: string, stream: string, prefetch: number }} source
 * @param {import("./consumer.js").Handler<Message>} handle
 * @param {{ lanes: number, acknowledgesFirst: boolean }} how
 */
export async function take({ url, stream, prefetch }, handle, { lanes, acknowledgesFirst }) {
  const connection = await connect({ servers: url });
  const source = await jetstream(connection).consumers.get(stream, stream);
  const messages = await source.consume({ max_messages: prefetch });
  const consumption = consumeNats(
    {
      handle(message, handling) {
        if (acknowledgesFirst) message.ack();
        return handle(message, handling);
      },
    },
    { messages, concurrency: lanes },
  );
  return {
    async close() {
      await consumption.close();
      await connection.drain();
    },
  };
}
