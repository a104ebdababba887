/** Records in the memory of the process. */
import { nevertwiceOn, nodeIdempotencyOn, steadykeyOn, storeSuite } from "./stores.js";

export const memory = storeSuite({
  name: "memory",
  title: "On the memory store",
  tables: [
    {
      store: "memory",
      durability: "Nothing outlives the process",
      servers: {},
      ours: nevertwiceOn([], "`memoryStore()`"),
      peers: [
        steadykeyOn([], "`InMemoryIdempotencyStore`"),
        nodeIdempotencyOn("memory", "`MemoryStorageAdapter`"),
      ],
      ratioMeant: { first: 1.2, replay: 1.5 },
      bytes: "Bytes of memory",
      size: { runs: 5, count: 40_000, laps: 2, warmup: 10_000, inFlight: 64, alone: 1_000 },
    },
  ],
});
