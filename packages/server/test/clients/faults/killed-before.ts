/** The service is killed before the effect, while it handles the request, and starts again. */
import type { Fault } from "./fault.ts";

export const killedBefore: Fault = {
  name: "killed-before",
  title: "killed before",
  says: "the service is killed before the effect, and starts again. A caller whose call fails calls again with its key, after the lease",
  ends: () => "no second effect",
  kills: true,
  run: ({ callAgain }) => callAgain(),
  async meanwhile(trials, stage) {
    await Promise.all(trials.map((trial) => trial.comesTo("arrived")));
    await stage.restart();
  },
};
