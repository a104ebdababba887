/** The same consumer with a guard, as its users write it. */
import { consumer } from "nevertwice/events";
import { natsHandler } from "nevertwice/events/nats";
import { openGuard } from "./nevertwice.js";

export async function create({ store, target, capacity, work }) {
  const { guard, close } = await openGuard(store, target, capacity);
  const key = ({ headers }) => headers.get("message-id");
  return { handle: natsHandler(consumer(guard, { name: "orders", key, work })), runsAgain: false, close };
}
