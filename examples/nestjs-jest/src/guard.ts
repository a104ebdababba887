/** The guard of this app. In production, give it a store that all processes share, such as `postgresStore`. */
import { createGuard } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";

export const guard = createGuard({ store: memoryStore(), namespace: "shop" });
