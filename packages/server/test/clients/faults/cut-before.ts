/** The network resets the connection before the request reaches the door. */
import type { Fault } from "./fault.ts";

export const cutBefore: Fault = {
  name: "cut-before",
  title: "cut before",
  says: "the connection is cut before the request arrives",
  ends: () => "one answer",
  run({ network, call }) {
    network.cutRequest();
    return call();
  },
};
