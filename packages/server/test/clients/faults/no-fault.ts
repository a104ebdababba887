/** Nothing goes wrong. */
import type { Fault } from "./fault.ts";

export const noFault: Fault = {
  name: "none",
  title: "none",
  says: "nothing goes wrong",
  ends: () => "one answer",
  run: ({ call }) => call(),
};
