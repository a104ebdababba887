/** The work takes ten seconds, and the connection is cut while it runs: every retry meets the running work. */
import type { Fault } from "./fault.ts";

export const longWorkCut: Fault = {
  name: "long-cut",
  title: "10 s, cut",
  says: "the work takes 10 seconds, and the connection is cut while it runs",
  ends: () => "one answer",
  async run({ network, call, comesTo }) {
    const told = call();
    await comesTo("arrived");
    network.cutAll();
    return told;
  },
};
