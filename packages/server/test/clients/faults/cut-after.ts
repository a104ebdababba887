/** The network loses the answer, after the effect. */
import type { Fault } from "./fault.ts";

export const cutAfter: Fault = {
  name: "cut-after",
  title: "cut after",
  says: "the connection is cut after the effect, before the answer arrives",
  ends: () => "one answer",
  run({ network, call }) {
    network.cutReply();
    return call();
  },
};
