/** The network loses an answer that is too large to keep. */
import type { Fault } from "./fault.ts";

export const unkept: Fault = {
  name: "unkept",
  title: "not kept",
  says: "the answer is too large to keep, and the connection is cut after the effect, before the answer arrives",
  ends: () => "no second effect",
  run({ network, call }) {
    network.cutReply();
    return call();
  },
};
