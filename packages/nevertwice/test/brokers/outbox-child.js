/**
 * A relay in a separate process: `node outbox-child.js <rabbitmq|nats> <url of the broker> <file> <target> <after>`. It delivers
 * the outbox in the file to a queue, or to a subject of a stream. When the broker has confirmed `after` messages, it kills itself
 * before the outbox knows; with 0 it runs until it has delivered everything.
 */
import { jetstream } from "@nats-io/jetstream";
import { connect as connectNats, headers } from "@nats-io/transport-node";
import { connect as connectRabbitmq } from "amqplib";
import { natsDeliverer } from "../../dist/outbox/nats.js";
import { openOutbox } from "../../dist/outbox/open.js";
import { rabbitmqDeliverer } from "../../dist/outbox/rabbitmq.js";

const [broker, url = "", file, target = "", after] = process.argv.slice(2);

async function toRabbitmq() {
  const channel = await (await connectRabbitmq(url)).createConfirmChannel();
  return rabbitmqDeliverer({ channel, routingKey: () => target });
}

async function toNats() {
  const js = jetstream(await connectNats({ servers: url }));
  return natsDeliverer({ js, subject: () => target, headers });
}

const deliver = await (broker === "rabbitmq" ? toRabbitmq() : toNats());
const outbox = await openOutbox(`sqlite:${file}`);
let confirmed = 0;
const relay = outbox.relay({
  leaseMs: 1_000,
  pollMs: 20,
  concurrency: 4,
  async deliver(message, context) {
    await deliver(message, context);
    if (++confirmed === Number(after)) process.kill(process.pid, "SIGKILL");
  },
});
relay.start();
while ((await outbox.list({ limit: 1 })).messages.length > 0)
  await new Promise((resolve) => setTimeout(resolve, 20));
await outbox.close();
process.exit(0);
