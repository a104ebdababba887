/** The work takes ten seconds. */
import type { Fault } from "./fault.ts";

export const longWork: Fault = {
  name: "long",
  title: "10 s",
  says: "the work takes 10 seconds",
  ends: () => "one answer",
  isSlow: true,
  run: ({ call }) => call(),
};
