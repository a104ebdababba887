/** Tests that the helper which runs the cases on stores runs all of them, and that its lists of exceptions are true. */
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { CLOCK_CANNOT_GO_BACK, describeStoreCases, NO_WATCH } from "./cases.ts";

describeStoreCases(
  "a store whose clock is moved",
  () => {
    const clock = manualClock();
    return { store: memoryStore({ clock }), advance: clock.advance };
  },
  { row: "memory" },
);

describeStoreCases(
  "a store without notifications, in real time",
  () => {
    const { watch, ...store } = memoryStore();
    return store;
  },
  { without: { ...CLOCK_CANNOT_GO_BACK, ...NO_WATCH } },
);
