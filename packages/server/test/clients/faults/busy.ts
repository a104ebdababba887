/** The service answers 503 once, before it has done anything. */
import type { Fault } from "./fault.ts";

export const busy: Fault = {
  name: "busy",
  title: "503",
  says: "the service answers 503 once, before the effect",
  ends: () => "no second effect",
  run: ({ call }) => call(),
};
