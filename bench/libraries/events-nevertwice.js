/** The same consumer with a guard, as its users write it. */
import { createGuard } from "nevertwice";
import { consumer } from "nevertwice/events";
import { natsHandler } from "nevertwice/events/nats";
import { STORES } from "./nevertwice.js";

export async function create({ store: name, target, capacity, work }) {
  const { store, close } = await STORES[name](target, capacity);
  const guard = createGuard({ store });
  const key = ({ headers }) => headers.get("message-id");
  return {
    handle: natsHandler(consumer(guard, { name: "orders", key, work })),
    runsAgain: false,
    async close() {
      await guard.close();
      await store.close();
      await close?.();
    },
  };
}
