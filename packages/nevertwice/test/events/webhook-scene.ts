/** A receiver of webhooks whose clock the test sets. */
import { type Incoming, type WebhookOptions, type WebhookScheme, webhook } from "../../src/events/webhook.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/index.ts";

/** A receiver whose clock stays at this second, and the webhooks that it accepted. */
export function receiver(
  scheme: WebhookScheme,
  options: Partial<WebhookOptions<string>>,
  seconds = 1_700_000_000,
) {
  const clock = manualClock(seconds * 1_000);
  const ids: (string | undefined)[] = [];
  const guard = createGuard({ store: memoryStore({ clock }), purgeEveryMs: 0 });
  const { handle } = webhook<string>(guard, {
    name: "hooks",
    scheme,
    clock,
    work: ({ id }) => {
      ids.push(id);
      return "done";
    },
    ...options,
  });
  return { ids, clock, status: async (incoming: Incoming) => (await handle(incoming)).status };
}
