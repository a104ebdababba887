/** Tests the published cases on D1 in workerd, by its own clock and by one that the cases move. Needs the build. */
import { CLOCK_CANNOT_GO_BACK, NO_WATCH } from "../stores/cases.ts";
import { describeCasesInWorkerd, RUNTIMES } from "./cases.ts";

describeCasesInWorkerd("d1", { without: NO_WATCH, oneByOne: true, row: "D1" });
describeCasesInWorkerd("d1, in real time", {
  without: { ...CLOCK_CANNOT_GO_BACK, ...NO_WATCH },
  runtimes: RUNTIMES.slice(0, 1),
});
