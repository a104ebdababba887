/** A payment and the message about it in one commit. The relay delivers it, and again after a failure, with the same id. */
import { DatabaseSync } from "@photostructure/sqlite";
import { createGuard } from "nevertwice";
import { createOutbox } from "nevertwice/outbox";
import { sqliteStore } from "nevertwice/stores/sqlite";

const database = new DatabaseSync(":memory:");
database.exec("CREATE TABLE payments (order_id TEXT, amount INTEGER)");
const outbox = createOutbox({ database });
await outbox.migrate();
const guard = createGuard({ store: sqliteStore({ database }), outbox, purgeEveryMs: 0 });

/** @param {string} order @param {number} amount */
const pay = (order, amount) =>
  guard.transaction({ operation: "pay", key: order }, database, (tx, attempt) => {
    tx.prepare("INSERT INTO payments VALUES (?, ?)").run(order, amount);
    void attempt.enqueue("order.paid", { order, amount }, { key: order });
    if (amount > 100) throw new Error("over the limit");
    void attempt.enqueue("receipt.wanted", { order }, { key: order });
    return amount;
  });

await Promise.all([pay("order-1", 42), pay("order-1", 42)]);
await pay("order-2", 4200).catch((error) => console.log(`rolled back: ${error.message}`));
const { undelivered } = await outbox.figures();
console.log(`two clicks and one failure: ${undelivered} messages`);

/** @type {string[]} */
const ids = [];
const relay = outbox.relay({
  retry: { baseMs: 10 },
  deliver(message, { attempt }) {
    ids.push(message.id);
    if (ids.length === 1) throw new Error("the broker is away");
    console.log(`delivered in attempt ${attempt}: ${message.topic} of ${message.key}`);
  },
});
relay.start();
while ((await outbox.figures()).undelivered > 0) await new Promise((resolve) => setTimeout(resolve, 10));
console.log(`the repeated message has the same id: ${ids[0] === ids[1]}`);
await outbox.close();
await guard.close();
database.close();
